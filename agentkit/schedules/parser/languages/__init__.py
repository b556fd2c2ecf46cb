"""The languages the rules read: vocabulary, grammar and the words of intent, a file or two each."""
