"""A network in namespaces with real DNS servers, to run a spec on real traffic."""
