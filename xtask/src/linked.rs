//! What is linked into what we publish: `cargo xtask sbom`, and the notices that the licences of it ask for.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::cargo::{self, cargo, output};
use crate::digest;
use crate::failure::{self, Failure, Outcome};
use crate::lock;
use crate::pins::WASM_TARGET;

/// Crates that have no text of a licence in their package. Whoever uses one more decides whether the
/// name of the licence is enough.
const WITHOUT_TEXT: &[&str] = &[
    "alloc-stdlib",
    "jsonschema-regex",
    "jsonschema-value",
    "libinjectionrs",
    "tonic-prost",
    "uuid-simd",
    "vsimd",
];

/// What files of notices are called, in upper case, up to an ending.
const NOTICES: &[&str] = &["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"];

/// The package of the filter.
const FILTER: &str = "glacis-wasm-filter";

/// The package of the native module.
pub(crate) const MODULE: &str = "glacis-envoy-module";

/// Something that is published by itself.
#[derive(Clone, Copy)]
pub(crate) enum Product {
    /// A program for this machine, by its package.
    Program(&'static str),
    /// The native module.
    Module,
    /// The filter.
    Filter,
    /// The filter with the engine in it.
    FilterWithEngine,
}

/// All of them.
pub(crate) const PRODUCTS: [Product; 6] = [
    Product::Program("glacis-cli"),
    Product::Program("glacis-ext-authz"),
    Product::Program("glacis-ext-proc"),
    Product::Module,
    Product::Filter,
    Product::FilterWithEngine,
];

impl Product {
    const fn package(self) -> &'static str {
        match self {
            Self::Program(package) => package,
            Self::Module => MODULE,
            Self::Filter | Self::FilterWithEngine => FILTER,
        }
    }

    /// How its bill of materials is called.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Program(package) => package,
            Self::Module => "libglacis",
            Self::Filter => "glacis_wasm_filter",
            Self::FilterWithEngine => "glacis_wasm_filter_engine",
        }
    }

    fn target(self) -> Outcome<String> {
        match self {
            Self::Program(_) | Self::Module => cargo::host(),
            Self::Filter | Self::FilterWithEngine => Ok(WASM_TARGET.to_owned()),
        }
    }
}

/// The crates that are linked into a product.
pub(crate) struct Linked {
    product: Product,
    crates: BTreeMap<(String, String), Crate>,
}

/// What cargo says of a crate.
#[derive(Debug, Default, PartialEq, Eq)]
struct Crate {
    licence: String,
    /// From this repository.
    is_ours: bool,
    /// Of what the registry has of it.
    sha256: Option<String>,
}

impl Linked {
    /// What is linked into a product.
    pub(crate) fn into(product: Product) -> Outcome<Self> {
        let target = product.target()?;
        let mut tree = cargo(["tree", "--locked", "--prefix", "none", "--format", "{p}\t{l}"]);
        // What runs in the compiler is not linked.
        tree.args(["--edges", "normal,no-proc-macro", "--target", &target]);
        tree.args(["--package", product.package()]);
        if matches!(product, Product::FilterWithEngine) {
            tree.args(["--features", "engine"]);
        }
        let mut crates = crates(&output(&mut tree)?);
        let lock = cargo::root().join("Cargo.lock");
        let lock = fs::read_to_string(&lock).map_err(failure::io("read", &lock))?;
        for package in lock::packages(&lock) {
            let id = (package.name.to_owned(), package.version.to_owned());
            if let Some(own) = crates.get_mut(&id) {
                own.sha256 = package.checksum.map(ToOwned::to_owned);
            }
        }
        Ok(Self { product, crates })
    }

    /// A bill of materials in CycloneDX's JSON.
    pub(crate) fn bill(&self) -> String {
        let component = |((name, version), own): (&(String, String), &Crate)| {
            let mut component = json!({"type": "library", "name": name, "version": version});
            // A name of ours is nobody's in the registry, or somebody else's.
            if !own.is_ours {
                let purl = json!(format!("pkg:cargo/{name}@{version}"));
                component["bom-ref"] = purl.clone();
                component["purl"] = purl;
            }
            if let Some(sha256) = &own.sha256 {
                component["hashes"] = json!([{"alg": "SHA-256", "content": sha256}]);
            }
            if !own.licence.is_empty() {
                component["licenses"] = json!([{"expression": own.licence}]);
            }
            component
        };
        let name = self.product.name();
        let about =
            json!({"type": "application", "name": name, "version": env!("CARGO_PKG_VERSION")});
        let bill = json!({
            "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
            "metadata": {"component": about},
            "components": self.crates.iter().map(component).collect::<Vec<Value>>(),
        });
        format!("{bill:#}\n")
    }
}

/// Names and versions with their licences, of lines such as `ring v0.17.14<TAB>Apache-2.0 AND ISC`.
fn crates(told: &str) -> BTreeMap<(String, String), Crate> {
    let mut crates = BTreeMap::new();
    for line in told.lines() {
        let Some((package, licence)) = line.split_once('\t') else { continue };
        let mut words = package.split_whitespace();
        if let (Some(name), Some(version)) = (words.next(), words.next()) {
            let version = version.trim_start_matches('v').to_owned();
            let licence = licence.trim_end_matches(" (*)");
            let licence = licence.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ");
            let is_ours = words.next().is_some_and(|place| place.starts_with("(/"));
            let own = Crate { licence, is_ours, sha256: None };
            crates.insert((name.to_owned(), version), own);
        }
    }
    crates
}

/// The notices of everything that is linked into these: each text once, below the names of the crates
/// that come with it.
pub(crate) fn notices(products: &[Linked]) -> Outcome<String> {
    let mut folders = BTreeMap::new();
    for linked in products {
        folders.extend(sources(&linked.product.target()?)?);
    }
    let mut texts: BTreeMap<String, (String, BTreeSet<String>)> = BTreeMap::new();
    let (mut without, mut undecided) = (BTreeSet::new(), BTreeSet::new());
    let others = products.iter().flat_map(|linked| &linked.crates).filter(|(_, own)| !own.is_ours);
    for (id, own) in others {
        let title = format!("{} {} ({})", id.0, id.1, own.licence);
        let folder = folders.get(id).ok_or_else(|| {
            Failure::new(format!("cargo does not say where the source of {title} is"))
        })?;
        let found = read_notices(folder)?;
        if found.is_empty() {
            without.insert(title.clone());
        }
        if found.is_empty() && !WITHOUT_TEXT.contains(&id.0.as_str()) {
            undecided.insert(title.clone());
        }
        for text in found {
            let entry = texts.entry(digest::of_bytes(text.as_bytes()));
            entry.or_insert_with(|| (text, BTreeSet::new())).1.insert(title.clone());
        }
    }
    if !undecided.is_empty() {
        let titles = undecided.into_iter().collect::<Vec<_>>().join(", ");
        return Err(Failure::new(format!(
            "without the text of a licence come {titles}; where the name is enough, add them to \
             WITHOUT_TEXT in xtask/src/linked.rs"
        )));
    }
    Ok(rendered(texts.into_values().collect(), &without))
}

/// As one text, what most crates have first.
fn rendered(mut texts: Vec<(String, BTreeSet<String>)>, without: &BTreeSet<String>) -> String {
    texts.sort_by(|(one, ones), (other, others)| {
        others.len().cmp(&ones.len()).then_with(|| ones.cmp(others)).then_with(|| one.cmp(other))
    });
    let line = "=".repeat(80);
    let mut out =
        String::from("Crates that are linked into Glacis, with the notices that come with them.\n");
    for (text, titles) in texts {
        let titles: String = titles.iter().map(|title| format!("{title}\n")).collect();
        out.push_str(&format!("\n{line}\n{titles}\n{}\n", text.trim_end()));
    }
    if !without.is_empty() {
        let titles: String = without.iter().map(|title| format!("{title}\n")).collect();
        out.push_str(&format!("\n{line}\n{titles}\nTheir packages have no text of the licence.\n"));
    }
    out
}

/// Where the source of each crate is that is built for a target.
fn sources(target: &str) -> Outcome<BTreeMap<(String, String), PathBuf>> {
    let arguments = ["metadata", "--locked", "--format-version", "1", "--filter-platform", target];
    let told = output(&mut cargo(arguments))?;
    let metadata: Value = serde_json::from_str(&told)
        .map_err(|error| Failure::new(format!("cargo metadata is not JSON: {error}")))?;
    let package = |package: &Value| {
        let text = |key: &str| Some(package[key].as_str()?.to_owned());
        let manifest = PathBuf::from(text("manifest_path")?);
        Some(((text("name")?, text("version")?), manifest.parent()?.to_path_buf()))
    };
    Ok(metadata["packages"].as_array().into_iter().flatten().filter_map(package).collect())
}

fn read_notices(folder: &Path) -> Outcome<Vec<String>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).map_err(failure::io("list", folder))? {
        let file = entry.map_err(failure::io("list", folder))?.path();
        let name = file.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
        if file.is_file() && NOTICES.iter().any(|known| name.starts_with(known)) {
            files.push(file);
        }
    }
    files.sort();
    let read = |file: PathBuf| {
        let bytes = fs::read(&file).map_err(failure::io("read", &file))?;
        Ok(String::from_utf8_lossy(&bytes).replace("\r\n", "\n"))
    };
    files.into_iter().map(read).collect()
}

/// `cargo xtask sbom PACKAGE`.
pub(crate) fn sbom(arguments: &[String]) -> Outcome<()> {
    let [name] = arguments else { return Err(unknown("sbom needs one package")) };
    print!("{}", Linked::into(product(name)?)?.bill());
    Ok(())
}

/// `cargo xtask notices PACKAGE…`.
pub(crate) fn print_notices(arguments: &[String]) -> Outcome<()> {
    if arguments.is_empty() {
        return Err(unknown("notices needs packages"));
    }
    let linked = arguments.iter().map(|name| Linked::into(product(name)?));
    print!("{}", notices(&linked.collect::<Outcome<Vec<_>>>()?)?);
    Ok(())
}

/// By the name of the package, or that of the bill of materials, which two of one package do not share.
fn product(name: &str) -> Outcome<Product> {
    let is_meant = |product: &Product| product.package() == name || product.name() == name;
    PRODUCTS
        .into_iter()
        .find(is_meant)
        .ok_or_else(|| unknown(&format!("`{name}` is not published")))
}

fn unknown(what: &str) -> Failure {
    let mut known: Vec<&str> = PRODUCTS.iter().map(|product| product.package()).collect();
    known.dedup();
    known.push(Product::FilterWithEngine.name());
    Failure::usage(format!("{what}; there are {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_the_tree_is_a_crate() {
        let told = "glacis-ext-proc v0.1.0 (/src/ext-proc)\tApache-2.0\nring v0.17.14\tApache-2.0 AND ISC\n\
                    ring v0.17.14\tApache-2.0 AND ISC (*)\na v1.0.0\tMIT/Apache-2.0\nb v2.0.0\tMIT / ISC\nnothing\n";
        let crates = crates(told);
        let told: Vec<_> = crates
            .iter()
            .map(|((name, _), own)| (name.as_str(), own.licence.as_str(), own.is_ours))
            .collect();
        assert_eq!(
            told,
            [
                ("a", "MIT OR Apache-2.0", false),
                ("b", "MIT OR ISC", false),
                ("glacis-ext-proc", "Apache-2.0", true),
                ("ring", "Apache-2.0 AND ISC", false)
            ]
        );
    }

    #[test]
    fn a_bill_names_what_is_linked_and_its_digest() {
        let own = |licence: &str, sha256: Option<&str>| Crate {
            licence: licence.to_owned(),
            is_ours: sha256.is_none(),
            sha256: sha256.map(ToOwned::to_owned),
        };
        let crates = BTreeMap::from([
            (("a".to_owned(), "1.0.0".to_owned()), own("MIT", Some("12ab"))),
            (("glacis-x".to_owned(), "0.1.0".to_owned()), own("Apache-2.0", None)),
        ]);
        let bill = Linked { product: Product::Filter, crates }.bill();
        let bill: Value = serde_json::from_str(&bill).unwrap();
        assert_eq!(bill["metadata"]["component"]["name"], "glacis_wasm_filter");
        assert_eq!(
            bill["components"],
            json!([
                {
                    "type": "library", "name": "a", "version": "1.0.0",
                    "bom-ref": "pkg:cargo/a@1.0.0", "purl": "pkg:cargo/a@1.0.0",
                    "hashes": [{"alg": "SHA-256", "content": "12ab"}],
                    "licenses": [{"expression": "MIT"}],
                },
                {
                    "type": "library", "name": "glacis-x", "version": "0.1.0",
                    "licenses": [{"expression": "Apache-2.0"}],
                },
            ])
        );
    }

    #[test]
    fn products_are_known_by_their_packages() {
        let name = |name| product(name).ok().map(Product::name);
        assert_eq!(name("glacis-cli"), Some("glacis-cli"));
        assert_eq!(name("glacis-envoy-module"), Some("libglacis"));
        assert_eq!(name("glacis-wasm-filter"), Some("glacis_wasm_filter"));
        assert_eq!(name("glacis_wasm_filter_engine"), Some("glacis_wasm_filter_engine"));
        assert_eq!(name("glacis-engine"), None);
    }

    #[test]
    fn a_text_stands_once_below_all_that_have_it() {
        let titles = |titles: &[&str]| titles.iter().map(|&title| title.to_owned()).collect();
        let texts = vec![
            ("B\n".to_owned(), titles(&["b 1 (MIT)"])),
            ("A\n".to_owned(), titles(&["a 1 (MIT)", "c 1 (MIT)"])),
        ];
        let line = "=".repeat(80);
        let told = rendered(texts, &titles(&["d 1 (ISC)"]));
        let (_, told) = told.split_once('\n').unwrap();
        assert_eq!(
            told,
            format!(
                "\n{line}\na 1 (MIT)\nc 1 (MIT)\n\nA\n\n{line}\nb 1 (MIT)\n\nB\n\n{line}\n\
                 d 1 (ISC)\n\nTheir packages have no text of the licence.\n"
            )
        );
    }
}
