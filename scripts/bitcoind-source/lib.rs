//! Empty: only the dependency of this manifest matters.
