"""Real servers, faults and the contract suite, for our tests and yours."""
