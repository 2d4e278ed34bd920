"""The pytest plugin of the kit: fixtures for projects that test their own agent."""
