"""The chaos round: the whole product under load while everything beneath it is killed, frozen and emptied. See `__main__`."""
