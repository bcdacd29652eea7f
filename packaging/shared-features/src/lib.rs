//! Features of libraries that the program and the viewer share. The package has no code: see its `Cargo.toml`.
