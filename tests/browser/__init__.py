"""The console in Chromium. A package and not a folder alone, so that one browser is there for all of its tests and no longer."""
