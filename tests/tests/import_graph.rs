//! Imports form no large circles: a reader who follows the data enters each folder once.
//!
//! The graph has a node per source file of a crate, and an edge where a file names an item that another file defines. A
//! name that a module re-exports counts as the defining file's. Code under `#[cfg(test)]` and `#[cfg(doc)]` does not count.
//!
//! The test draws the graph of each crate as `target/import-graph/CRATE.dot`, for `dot -Tsvg`.

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, ItemMod, ItemUse, UseTree, Visibility};

/// Crates of the project, by folder.
const CRATES: [&str; 15] = [
    "interpose",
    "interpose/recorder",
    "layer",
    "formats/ranklog",
    "formats",
    "collector/analysis",
    "collector/import",
    "collector/compare",
    "collector/report",
    "collector/doctor",
    "collector/hang",
    "collector/live",
    "collector/workloads",
    "collector/cli",
    "viewer",
];

/// Maximum number of files in a circle.
const MAX_CIRCLE: usize = 3;

/// A module: the names from the crate's root to it.
type Module = Vec<String>;

/// One name that a file uses: a path from the crate's root.
type Used = Vec<String>;

#[derive(Default)]
struct Crate {
    files: BTreeMap<Module, syn::File>,
    /// Re-exports: module and name, and the path of the item.
    exports: BTreeMap<(Module, String), Used>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// True for code of tests, and for imports that only links in documentation need.
fn is_left_out(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("cfg")
            && attribute
                .parse_args::<syn::Ident>()
                .is_ok_and(|condition| condition == "test" || condition == "doc")
    })
}

impl Crate {
    fn read(folder: &Path) -> Self {
        let mut found = Self::default();
        let source = folder.join("src");
        let start = ["lib.rs", "main.rs"]
            .map(|name| source.join(name))
            .into_iter()
            .find(|path| path.exists())
            .expect("a crate has a root");
        found.add(&source, &start, Vec::new());
        for (module, file) in &found.files {
            let mut uses = Vec::new();
            for item in &file.items {
                if let Item::Use(item) = item
                    && !matches!(item.vis, Visibility::Inherited)
                {
                    flatten(&item.tree, &mut Vec::new(), &mut uses);
                }
            }
            for path in uses {
                if let (Some(absolute), Some(name)) = (found.absolute(module, module, &path), path.last()) {
                    found.exports.insert((module.clone(), name.clone()), absolute);
                }
            }
        }
        found
    }

    /// Reads a file and the files of its modules.
    fn add(&mut self, folder: &Path, path: &Path, module: Module) {
        let text = fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        let file = syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        for item in &file.items {
            if let Item::Mod(child) = item
                && child.content.is_none()
                && !is_left_out(&child.attrs)
            {
                let name = child.ident.to_string();
                let inner = folder.join(&name);
                let place = [folder.join(format!("{name}.rs")), inner.join("mod.rs")]
                    .into_iter()
                    .find(|path| path.exists())
                    .unwrap_or_else(|| panic!("{}: no file for mod {name}", path.display()));
                let mut child = module.clone();
                child.push(name);
                self.add(&inner, &place, child);
            }
        }
        self.files.insert(module, file);
    }

    /// A path from the crate's root; `None` for other crates. `scope` is `module`, or an inline module in it.
    fn absolute(&self, module: &Module, scope: &Module, path: &[String]) -> Option<Used> {
        let mut rest = path.iter().peekable();
        let mut absolute = match path.first()?.as_str() {
            "crate" => {
                rest.next();
                Vec::new()
            }
            "self" | "super" => {
                let mut from = scope.clone();
                while let Some(first) = rest.peek() {
                    match first.as_str() {
                        "self" => {}
                        "super" => {
                            from.pop()?;
                        }
                        _ => break,
                    }
                    rest.next();
                }
                from
            }
            first => {
                let mut child = module.clone();
                child.push(first.to_owned());
                if !self.files.contains_key(&child) {
                    return None;
                }
                module.clone()
            }
        };
        absolute.extend(rest.cloned());
        Some(absolute)
    }

    /// The file that defines what this path names.
    fn definer(&self, path: &[String]) -> Module {
        let mut path = path.to_vec();
        // Re-exports form chains of a few links.
        for _ in 0..8 {
            let length = (0..=path.len())
                .rev()
                .find(|&length| self.files.contains_key(&path[..length]))
                .unwrap_or(0);
            let (module, rest) = path.split_at(length);
            let Some(name) = rest.first() else {
                return module.to_vec();
            };
            match self.exports.get(&(module.to_vec(), name.clone())) {
                Some(target) => path = target.iter().chain(&rest[1..]).cloned().collect(),
                None => return module.to_vec(),
            }
        }
        panic!("re-exports of {path:?} form a circle");
    }

    /// Every pair of a file and another file that it uses.
    fn edges(&self) -> BTreeSet<(Module, Module)> {
        let mut edges = BTreeSet::new();
        for (module, file) in &self.files {
            let mut names = Names {
                scope: module.clone(),
                used: Vec::new(),
            };
            names.visit_file(file);
            for (scope, path) in names.used {
                if let Some(absolute) = self.absolute(module, &scope, &path) {
                    let definer = self.definer(&absolute);
                    if definer != *module {
                        edges.insert((module.clone(), definer));
                    }
                }
            }
        }
        edges
    }
}

/// All paths that a file names outside its tests, with the module in which each is named. Re-exports do not count.
struct Names {
    scope: Module,
    used: Vec<(Module, Vec<String>)>,
}

impl<'a> Visit<'a> for Names {
    fn visit_item(&mut self, item: &'a Item) {
        let attributes = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => return visit::visit_item(self, item),
        };
        if !is_left_out(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, item: &'a ItemMod) {
        self.scope.push(item.ident.to_string());
        visit::visit_item_mod(self, item);
        self.scope.pop();
    }

    fn visit_item_use(&mut self, item: &'a ItemUse) {
        if matches!(item.vis, Visibility::Inherited) {
            let mut paths = Vec::new();
            flatten(&item.tree, &mut Vec::new(), &mut paths);
            let scope = &self.scope;
            self.used
                .extend(paths.into_iter().map(|path| (scope.clone(), path)));
        }
    }

    /// A macro's path says nothing: exported macros are at the crate's root, wherever they are defined.
    fn visit_macro(&mut self, _: &'a syn::Macro) {}

    fn visit_path(&mut self, path: &'a syn::Path) {
        if path.segments.len() > 1 {
            let names = path.segments.iter().map(|segment| segment.ident.to_string());
            self.used.push((self.scope.clone(), names.collect()));
        }
        visit::visit_path(self, path);
    }
}

/// All paths of a `use`.
fn flatten(tree: &UseTree, prefix: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
    let mut with = |name: String| paths.push(prefix.iter().cloned().chain([name]).collect());
    match tree {
        UseTree::Path(path) => {
            prefix.push(path.ident.to_string());
            flatten(&path.tree, prefix, paths);
            prefix.pop();
        }
        UseTree::Name(name) if name.ident == "self" => paths.push(prefix.clone()),
        UseTree::Name(name) => with(name.ident.to_string()),
        UseTree::Rename(rename) if rename.ident == "self" => paths.push(prefix.clone()),
        UseTree::Rename(rename) => with(rename.ident.to_string()),
        UseTree::Glob(_) => paths.push(prefix.clone()),
        UseTree::Group(group) => {
            for tree in &group.items {
                flatten(tree, prefix, paths);
            }
        }
    }
}

/// Circles in a graph, each as the names of its nodes.
fn circles(edges: &BTreeSet<(String, String)>) -> Vec<Vec<&str>> {
    let graph: DiGraphMap<&str, ()> = edges
        .iter()
        .map(|(from, to)| (from.as_str(), to.as_str()))
        .collect();
    let mut circles = tarjan_scc(&graph);
    circles.retain(|circle| circle.len() > 1);
    circles.iter_mut().for_each(|circle| circle.sort_unstable());
    circles
}

fn shown(module: &[String]) -> String {
    if module.is_empty() {
        "(root)".to_owned()
    } else {
        module.join("::")
    }
}

/// The graph between the children of each folder, by folder. A folder's own `mod.rs` is no child.
fn between_folders(edges: &BTreeSet<(Module, Module)>) -> BTreeMap<Module, BTreeSet<(String, String)>> {
    let mut folders: BTreeMap<Module, BTreeSet<(String, String)>> = BTreeMap::new();
    for (from, to) in edges {
        let common = from
            .iter()
            .zip(to)
            .take_while(|(one, other)| one == other)
            .count();
        if let (Some(one), Some(other)) = (from.get(common), to.get(common)) {
            let inside = folders.entry(from[..common].to_vec()).or_default();
            inside.insert((one.clone(), other.clone()));
        }
    }
    folders
}

#[test]
fn no_circle_of_imports_is_larger_than_three_files_and_none_is_between_folders() {
    let drawings = root().join("target/import-graph");
    fs::create_dir_all(&drawings).expect("a folder for drawings");
    let mut faults = String::new();
    let mut files = 0;
    for name in CRATES {
        let folder = root().join(name);
        let found = Crate::read(&folder);
        files += found.files.len();
        let edges = found.edges();
        assert!(
            edges.len() >= found.files.len() / 2,
            "{name}: {} edges of {} files are too few to be true",
            edges.len(),
            found.files.len()
        );
        let named: BTreeSet<(String, String)> =
            edges.iter().map(|(from, to)| (shown(from), shown(to))).collect();
        let mut drawing = "digraph imports {\n  rankdir=LR;\n  node [shape=box];\n".to_owned();
        for (from, to) in &named {
            let _ = writeln!(drawing, "  {from:?} -> {to:?};");
        }
        drawing.push_str("}\n");
        let file = drawings.join(format!("{}.dot", name.replace('/', "-")));
        fs::write(file, drawing).expect("a drawing");

        for circle in circles(&named) {
            if circle.len() > MAX_CIRCLE {
                let _ = writeln!(faults, "{name}: {} files import each other:", circle.len());
                let is_inside = |file: &str| circle.contains(&file);
                for (from, to) in named.iter().filter(|(from, to)| is_inside(from) && is_inside(to)) {
                    let _ = writeln!(faults, "    {from} -> {to}");
                }
            }
        }
        for (inside, edges) in between_folders(&edges) {
            for circle in circles(&edges) {
                let is_folder = |child: &&str| {
                    let path = inside.iter().map(String::as_str).chain([*child]);
                    folder.join("src").join(path.collect::<PathBuf>()).is_dir()
                };
                if circle.iter().any(is_folder) {
                    let _ = writeln!(
                        faults,
                        "{name}, {}: folders import each other: {circle:?}",
                        shown(&inside)
                    );
                }
            }
        }
    }
    assert!(files > 400, "{files} files read");
    assert!(faults.is_empty(), "{faults}");
}

#[test]
fn circles_are_found() {
    let edges = [("a", "b"), ("b", "c"), ("c", "a"), ("c", "d"), ("e", "e")];
    let edges = edges.map(|(from, to)| (from.to_owned(), to.to_owned()));
    assert_eq!(circles(&edges.into()), [["a", "b", "c"]]);
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let edges = [("x::a", "y"), ("y", "x::b::c"), ("x::a", "x::b::c")];
    let edges: BTreeSet<(Module, Module)> = edges.map(|(from, to)| (module(from), module(to))).into();
    let folders = between_folders(&edges);
    assert_eq!(circles(&folders[&Vec::new()]), [["x", "y"]]);
    assert_eq!(folders[&module("x")].len(), 1);
}
