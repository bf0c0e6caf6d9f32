//! Each file in `stories/` shows exactly what stands beside it. `QUELEA_BLESS=1` writes what is shown now.

use std::fs;
use std::path::Path;

use sim::story;

#[test]
fn stories_show_what_they_showed() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("stories");
    let bless = std::env::var_os("QUELEA_BLESS").is_some();
    let mut told = 0;
    let mut different = Vec::new();
    for entry in fs::read_dir(&folder).expect("there are stories") {
        let path = entry.expect("a file").path();
        if path.extension().is_none_or(|e| e != "story") {
            continue;
        }
        told += 1;
        let name = path.file_stem().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let text = fs::read_to_string(&path).expect("a story can be read");
        let outcome = story::tell(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(outcome.broken.is_empty(), "{name}:\n{}", outcome.text);
        let golden = path.with_extension("out");
        if bless {
            fs::write(&golden, &outcome.text).expect("the output can be written");
        }
        let known = fs::read_to_string(&golden).unwrap_or_default();
        if known != outcome.text {
            different.push(format!("{name} shows now:\n{}", outcome.text));
        }
    }
    assert!(told >= 6, "only {told} stories were found");
    assert!(different.is_empty(), "{}", different.join("\n"));
}
