"""English: the words that tell a request from a question, a statement or a command, and frame it."""

from __future__ import annotations

from typing import Final

from agentkit.schedules.parser.language import Intent
from agentkit.schedules.parser.word_lists import word_set

_NOTE: Final = "reminder|alarm|timer|alert|notification|nudge|ping|countdown|wakeup"

INTENT: Final = Intent(
    asking=(
        "remind me|us|myself",
        "remind|remindme",
        "reminder|reminders|alarm|timer",
        "be reminded",
        "schedule me|us? for? me|us?",
        "reminding|pinging|notifying|alerting me|us",
        "to be reminded",
        (
            f"give|send|shoot|drop|get|leave me|us a|an|another friendly|quick|little|gentle|short? {_NOTE}|shout|"
            f"buzz|message|text|note|poke"
        ),
        "give|send|shoot|drop me|us a heads - ? up",
        "give|send me a heads up",
        (
            f"set|create|add|make|start|put|schedule|set-up|need|want|have|get|place|configure|program me|up? a|"
            f"an|another|the|my new|recurring|quick|daily|weekly|monthly|repeating|one-off? {_NOTE}|task|event|"
            f"job|entry|schedule"
        ),
        f"set|create|add|make|start|schedule me|up? {_NOTE}",
        f"a|an|new|quick {_NOTE}",
        "ping|nudge|poke|alert|notify|tell|message|buzz|warn|prompt|prod|hit|bug|text me|us up?",
        "let me|us know",
        "note|memo|reminder to self|myself",
        "don't|dont|do let me|us forget",
        "don't|dont forget",
        "remember",
        "make|be sure that? i|we|you",
        "make|be sure",
        "see to it that i?",
    ),
    wishing=(
        "can|could|would|will|can't|cannot you|u please|pls|kindly|maybe|possibly|just|like|um|uh?",
        "i think|guess|suppose|believe|reckon",
        "would you mind",
        "would it be possible",
        "is it possible|ok",
        "can|could|may i have|get",
        "i|we really|also|just|still? need|want|wanna|gotta to?",
        "i|we really|also|just|still? need|want|have|ought|plan|intend|wish to",
        "i|we need|want you to?",
        "i'd|i|we|we'd would? like|love|prefer|appreciate you? to?",
        "i|we must|should|gotta|wanna|shall|will",
        "i'll need to",
        "i|we have|has|had got to",
        "i've|we've got to",
        "i'm|i am going|supposed|meant to",
        "i|i'm|we was|were|am|is|are? wondering|hoping|thinking maybe|perhaps|if|that? you|u? could|can|would|might?",
        "if you could|can|would",
        "todo|to-do|task|memo|note",
        "to do",
        "it's|its time to",
        "time to",
    ),
    courtesies=(
        "please|pls|plz|plss|kindly|hey|hi|hello|hiya|ok|okay|yo|so|well|also|oh|um|uh|anyway|anyways|alright|right",
        "bot|assistant|buddy|mate|dear|friend|there|again|guys|folks|btw|quick|quickly|fyi",
        "thanks|thx|ty|cheers ,|!|.|-|and|but|now",
        "thank you ,|!|.|-|and|but|now",
        "ok|okay|hey|hi google|siri|alexa|cortana",
        "siri|alexa|cortana",
        "good morning|afternoon|evening|day|night",
        "one more thing|time?",
        "by the way",
        "and|then|but|or|now|just",
        ",|:|-|–|—|!|.|…|¶|*|•|;|(|)|>",
        "if possible",
        "yes|yeah|yep|sure",
    ),
    closings=(
        "please|pls|plz|thanks|thx|ty|tysm|cheers|tks|ta",
        "thank you|u so|very? much?",
        "many thanks",
        "thanks so|very? much|lot|again|bot",
        "thanks a lot|bunch|million",
        "thanks in advance",
        "if possible",
        "ok|okay",
        "will|would|can|could you|u",
        "for me",
        ",|:|-|–|—|!|.|…|¶|?|;",
        "will do",
    ),
    keeping=("wake|wakey|get me|us up?", "call|phone|ring me|us", "snooze", "wake"),
    links=frozenset({"to", "that", "about", "of", "for", "re", "regarding", ":", "-", "–", "2"}),
    questions=(
        "what|what's|whats|who|who's|whos|whom|whose|which|why|where|where's|how|how's|hows",
        "when|when's|whens is|are|was|were|do|does|did|will|can|should|would|am|has|have",
        "when's|whens",
        "is|are|am|was|were|does|did|isn't|aren't|wasn't|doesn't|didn't|has|hasn't|hadn't|shall|should|had",
        "do|have i|you|we|they|it|he|she|u|people|your",
        "haven't|don't|might|may|must i|you|we|they|it|he|she|u|people|the|my|your|our",
        "will|would|can|could|won't|can't|couldn't|wouldn't i|we|they|it|he|she|the|my|our|your|that|this|there|these",
        "will|would you|u be|come|go|join|attend|stay",
        "show|tell me what|what's|how|why|when|where|who|which",
        (
            "can|could|will|would|do|did you|u tell|explain|show|describe|say|help|hear|see|speak|understand|"
            "work|like|know|think|remember|recommend"
        ),
        "any idea|ideas|chance|thoughts|plans|news",
        "know|guess what|when|who|how|why",
        "tell me a|an|about|how|why|what|who|when|where|which|more|something|the|your|if|whether",
        "explain|describe|compare how|why|what|when|whether|if|to|me|us|a|an",
        "define|translate|calculate|compute|convert|spell|imagine|pretend",
        (
            "write|compose|tell|sing|create|generate|make|give|recite|invent me|us? a|an|another|the|some short|"
            "long|funny|nice|little? poem|poems|story|song|haiku|essay|joke|limerick|tale|novel|sonnet|rap|"
            "lyrics|script|function|program|regex|riddle"
        ),
        "recommend|suggest me|us|a|an|some|something",
        "find me|us a|an|some|the|good",
        "let's|lets see|say|suppose",
        "i wonder|wondered",
        "just curious|wondering|asking",
    ),
    statements=(
        (
            "i|i've|we|we've|you|you've|he|she|they|it|it's|he's|she's|they're|we're|you're|i'm|there|there's|"
            "that|that's|those|these|everyone|everybody|nobody|someone|somebody|who|he'll|she'll|they'll|it'll|"
            "we'll|i'd|he'd|she'd|they'd"
        ),
        "this|that was|is|has|had|will|works|sounds|looks",
        "thanks|thank for|you|again|so|god|goodness",
        "i'll|we'll be|have",
        "i|we will|shall be|have",
        "happy|merry",
        "talk|speak|catch to? you|u|ya",
        "forget about|it|that",
        "don't|dont|never|do remind|wake|ping|notify|alert",
        "do not remind|wake|ping|notify|alert",
        "never|no|stop again|more? remind|reminder|reminders|alarm|alarms|reminding",
        "happy|merry birthday|new|christmas|anniversary|easter|monday|friday|weekend",
        "see you|u|ya",
        "sorry|great|nice|congrats|congratulations|lol|haha|wow|sounds|glad|welcome|cool|awesome|yay|ugh|damn",
        "once upon a time",
        "no|nah|nope|never mind|problem|thanks|worries",
    ),
    past=word_set(
        "was were had did went came got said told took began won ran saw made broke sent forgot missed slept woke met "
        "ate drank felt gave knew found thought brought bought lost paid spoke wrote drove flew grew heard held kept "
        "left meant led rained finished called failed arrived worked happened started ended closed opened passed "
        "crashed died moved visited attended completed delivered deployed shipped expired wasn't weren't didn't "
        "hadn't rang stood fell spent understood caught taught built chose drew grew stole threw "
        "tore swam sang drank became "
        "happened used"
    ),
    verbs=word_set(
        "is are isn't aren't starts begins opens closes ends leaves departs arrives takes runs comes goes gets has "
        "happens lands expires falls works usually always never wakes eats sleeps lives loves likes hates plays "
        "teaches boards stays looks seems sounds feels hosts says thinks wants needs rises sets kicks airs returns "
        "visits flies drives walks meets calls does can can't could would might must won't will"
    ),
    management=(
        (
            "cancel|delete|remove|list|show|pause|resume|stop|clear|change|move|reschedule|postpone|edit|update|"
            "skip|unsnooze|disable|enable|dismiss|erase|kill|mute|silence|reactivate|unpause|modify|shift|undo|"
            "view|display|abort|unset|restart|snooze"
        ),
        (
            "check|see|get|read|give|export|count|print|turn|switch|push|end|forget|drop|bring|fetch me? my|all|"
            "the|off|every|our|any|up|on|out"
        ),
    ),
    managed=word_set(
        "reminder reminders reminder's alarm alarms timer timers schedule schedules notification notifications "
        "reminding schedules alerts jobs scheduled upcoming recurring tasks agenda calendar events"
    ),
    asking_verbs=frozenset({"do"}),
    bare_verbs=word_set(
        "run go open close work have come start end stop leave arrive need want like exist get take know still ever "
        "usually always meet sleep eat live play happen depart land operate deliver offer serve sell accept allow"
    ),
    moving=word_set("move shift push change bring delay reschedule postpone switch"),
    occasions=(
        "on|at|by|in|during|around|before|after|until|from my|the|our|his|her",
        "on|at|by|in|during|around|before|after|until|from spring|summer|autumn|fall|winter|several|some|q1|q2|q3|q4",
        "at|by|in|on|around several|about|roughly <number>",
    ),
    after_managed=word_set(
        "for to at on about that i of from in by is are with which named called please tomorrow today and"
    ),
    instructions=(
        (
            "ignore|disregard|forget|override|bypass|drop all|any|your|the|my|every|everything|previous|prior|"
            "these|those|earlier|above of|the|your|my|all|other? previous|prior|above|earlier|system|safety|"
            "former|past|old|current|existing|hidden? rules|rule|instruction|instructions|prompt|prompts|"
            "guidelines|training|directives|constraints|everything|system|orders|above"
        ),
        "ignore|disregard|forget all|everything above|before|previously|i",
        "forget|ignore everything",
        (
            "new|updated|additional|special|important|system instruction|instructions|prompt|directive|"
            "directives|rule|rules|override|message|command :|-|–|is|are?"
        ),
        "you are|r now",
        "you must|should|will now? answer|respond|reply|output|return|obey|always|never|only",
        "pretend to|that|you|you're",
        "act|behave as|like",
        "system|assistant|developer prompt? :",
        "answer|respond|reply|output|return only|with|in just? the? cron|json|only|exactly|yes|no|\x00",
        "output|return|emit|print|respond with? the? cron|json",
        (
            "print|reveal|show|repeat|leak|expose|output|dump|tell me? the|your|all|my hidden|system|secret|full|"
            "initial|original|internal|whole? prompt|instructions|rules|system|secrets|configuration|password|"
            "passwords|key|keys|api"
        ),
        "jailbreak",
        "dan mode",
        "developer|debug|admin|god|sudo mode",
        "set the|your|my? timezone|zone|time to",
    ),
    determiners=word_set(
        "the my our your his her their its a an that those these any some no another mom's dad's whose"
    ),
    limits=word_set("overnight after before during while when whenever if except between from past unless until till"),
    zone_words=frozenset({"time", "timezone"}),
    partitives=frozenset({"of"}),
    places=frozenset({"on", "in", "at"}),
    clock_words=frozenset({"at", "@"}),
    choices=frozenset({"or"}),
    glue=frozenset({"at", "on", "to", "and", "of", "by", "from", "until", "in", "for"}),
    counted=frozenset({"to", "for"}),
    leading=frozenset({"to", "that", "then", "and"}),
    dangling=frozenset({"at", "and", "by", "@", "starting"}),
    past_ending="ed",
    joiners=frozenset({"and", "or", "then", "so", "but", "-", "–", "—", "also", "plus", "&", "+", ";", ",", ".", "¶"}),
    waiting=word_set("timer snooze wait alarm countdown sleep pause delay hold stopwatch snoozed postpone"),
    conditions=word_set("when once if whenever unless while before after until till as"),
    bounds=word_set("until till til except excluding unless starting beginning ending besides skipping skip without"),
    recurring=frozenset({"every"}),
    titles=word_set("called titled named entitled"),
    works=word_set("song movie film album novel track episode podcast playlist poem book show band playlist series"),
    fillers=frozenset({",", "-", "–", "—", "(", ")", "and", "or", "at", "on", "the", "for", "by", "in", "@", ":", "."}),
)
