"""Jobs: durable calls to come. ``queue`` takes them, ``alarm`` wakes for them, ``dispatch`` runs them."""
