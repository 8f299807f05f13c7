"""For those who try Mica on programs of their own."""
