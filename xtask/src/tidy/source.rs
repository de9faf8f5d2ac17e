//! Rules about one source file: its header, its length, its functions, its columns, its clocks.
//!
//! The text is read as rustfmt leaves it: a function ends at the brace that stands under its `fn`.

/// Longest function, in lines, signature and brace included: one screen.
const FUNCTION_LINES_MAX: usize = 70;
/// Longest line, in characters.
const COLUMNS_MAX: usize = 100;
/// Longest file without its tests, in lines: "about 500", and nobody splits a file for ten lines.
const FILE_LINES_MAX: usize = 550;

/// Ways around the injected clock. Written in halves so that this file does not breach itself.
const CLOCKS: [&str; 4] = [
    concat!("SystemTime::", "now"),
    concat!("Instant::", "now"),
    concat!("time::", "sleep"),
    concat!("thread::", "sleep"),
];

/// Where they may be used, and why.
const CLOCKS_ALLOWED: [(&str, &str); 9] = [
    ("crates/landfall-conformance/src/lifecycles", "measures real time"),
    ("crates/landfall-lanes/src/clock.rs", "is the clock"),
    ("crates/landfall-servers/src/server.rs", "waits for other processes"),
    ("crates/landfall-sim-evm/src/server", "makes blocks in real time"),
    ("crates/landfall-sim-relayer/src/lib.rs", "looks after transactions in real time"),
    ("crates/landfall-sim-front/src", "is slow on purpose"),
    ("crates/landfall-sim-near/src/server", "makes blocks in real time"),
    ("crates/landfall-sim-solana/src/server", "makes blocks in real time"),
    ("xtask/", "measures real time"),
];

pub fn breaches(name: &str, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    // A tests.rs is introduced by the module it tests.
    if !text.starts_with("//!") && !name.ends_with("/tests.rs") {
        found.push(format!("{name}:1: no header; open with //!: its purpose and its rules"));
    }
    let code = without_tests(text);
    if !is_test(name) && code > FILE_LINES_MAX {
        found.push(format!("{name}:1: {code} lines; split it at {FILE_LINES_MAX}"));
    }
    for (index, line) in text.lines().enumerate() {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX {
            let number = index + 1;
            found.push(format!("{name}:{number}: {columns} columns; break it at {COLUMNS_MAX}"));
        }
    }
    found.extend(long_functions(name, text));
    found.extend(clocks(name, text));
    found
}

fn is_test(name: &str) -> bool {
    name.contains("/tests/") || name.ends_with("/tests.rs")
}

/// Lines before the file's own test module.
fn without_tests(text: &str) -> usize {
    let lines: Vec<&str> = text.lines().collect();
    let tests = lines
        .windows(2)
        .position(|pair| pair[0] == "#[cfg(test)]" && pair[1].starts_with("mod tests {"));
    tests.unwrap_or(lines.len())
}

fn long_functions(name: &str, text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (index, line) in lines.iter().enumerate() {
        if !declares_function(line.trim_start()) {
            continue;
        }
        let indent = line.len() - line.trim_start().len();
        let end = lines[index..].iter().position(|later| ends_function(later, indent));
        let length = end.map_or(0, |end| end + 1);
        if length > FUNCTION_LINES_MAX {
            let number = index + 1;
            found.push(format!(
                "{name}:{number}: a function of {length} lines; split it at {FUNCTION_LINES_MAX}"
            ));
        }
    }
    found
}

fn declares_function(line: &str) -> bool {
    const BEFORE: [&str; 7] =
        ["pub ", "pub(crate) ", "pub(super) ", "async ", "const ", "unsafe ", "default "];
    let mut rest = line;
    while let Some(shorter) = BEFORE.iter().find_map(|word| rest.strip_prefix(word)) {
        rest = shorter;
    }
    rest.starts_with("fn ")
}

/// The brace under the `fn`, a body on the same line, or a signature without a body.
fn ends_function(line: &str, indent: usize) -> bool {
    let trimmed = line.trim_start();
    let at_indent = line.len() - trimmed.len() == indent;
    let ends = trimmed.starts_with('}') || trimmed.ends_with('}') || trimmed.ends_with(';');
    at_indent && ends
}

fn clocks(name: &str, text: &str) -> Vec<String> {
    // Tests own their time (paused, or other processes' real one), and examples measure it.
    let is_example = name.contains("/examples/");
    if is_test(name)
        || is_example
        || CLOCKS_ALLOWED.iter().any(|(place, _)| name.starts_with(place))
    {
        return Vec::new();
    }
    let uses = |line: &str| CLOCKS.iter().copied().find(|clock| line.contains(clock));
    let lines = text.lines().enumerate();
    lines
        .filter(|(_, line)| !line.trim_start().starts_with("//"))
        .filter_map(|(index, line)| Some((index + 1, uses(line)?)))
        .map(|(number, clock)| format!("{name}:{number}: {clock}; use the injected Clock"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, text: &str, expected: usize) {
        let found = breaches(name, text);
        assert_eq!(found.len(), expected, "{found:#?}");
    }

    fn function(lines: usize) -> String {
        let body = "        let x = 1;\n".repeat(lines - 2);
        format!("//! x\nimpl X {{\n    pub async fn f() {{\n{body}    }}\n}}\n")
    }

    #[test]
    fn a_file_without_a_header_is_a_breach() {
        check("crates/a/src/a.rs", "use b;\n", 1);
        check("crates/a/src/a.rs", "//! A.\n", 0);
    }

    #[test]
    fn a_function_of_seventy_lines_is_the_longest() {
        check("crates/a/src/a.rs", &function(70), 0);
        check("crates/a/src/a.rs", &function(71), 1);
    }

    #[test]
    fn columns_are_counted_in_characters() {
        check("crates/a/src/a.rs", &format!("//! {}\n", "é".repeat(96)), 0);
        check("crates/a/src/a.rs", &format!("//! {}\n", "é".repeat(97)), 1);
    }

    #[test]
    fn the_time_is_read_in_the_clock_alone() {
        let text = format!("//! x\nlet now = {}();\n", CLOCKS[0]);
        check("crates/a/src/a.rs", &text, 1);
        check("crates/landfall-lanes/src/clock.rs", &text, 0);
    }

    #[test]
    fn tests_do_not_count_towards_a_files_length() {
        let code = format!("//! x\n{}", "let x = 1;\n".repeat(500));
        let tests = format!("#[cfg(test)]\nmod tests {{\n{}}}\n", "    let x = 1;\n".repeat(500));
        check("crates/a/src/a.rs", &format!("{code}{tests}"), 0);
        check("crates/a/src/a.rs", &format!("{code}{code}"), 1);
        check("crates/a/src/a/tests.rs", &format!("{code}{code}"), 0);
    }
}
