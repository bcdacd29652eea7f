//! `rankscope rules`.

use super::{Exit, print};
use anyhow::{Result, bail};
use clap::Args;
use rankscope_analysis::findings::catalogue::NOT_YET;
use rankscope_analysis::findings::{RULES, Rule};
use std::fmt::Write;

const EXAMPLES: &str = "\
Examples:
  rankscope rules                 explain all findings
  rankscope rules late-rank       explain one finding
  rankscope rules --markdown      write Markdown
  rankscope rules --json | jq '.[].id'";

/// Explain the findings of a report: meaning, condition, and limits of each rule.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct Rules {
    /// Rules to explain (default: all).
    #[arg(value_name = "RULE")]
    rules: Vec<String>,

    /// Print as JSON.
    #[arg(long)]
    json: bool,

    /// Print as Markdown.
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
}

impl Rules {
    pub fn run(self) -> Result<Exit> {
        let mut rules: Vec<&Rule> = RULES.iter().collect();
        if !self.rules.is_empty() {
            if let Some(unknown) = self
                .rules
                .iter()
                .find(|id| !RULES.iter().any(|rule| rule.id == **id))
            {
                bail!("unknown rule {unknown}; rankscope rules lists all rules");
            }
            rules.retain(|rule| self.rules.iter().any(|id| *id == rule.id));
        }
        if self.json {
            print::json(&rules)?;
        } else {
            print::text(&page(&rules, self.markdown, self.rules.is_empty()))?;
        }
        Ok(Exit::Fine)
    }
}

/// Returns all rules as Markdown.
pub fn whole_page() -> String {
    page(&RULES.iter().collect::<Vec<_>>(), true, true)
}

/// Formats the rules as text or Markdown.
fn page(rules: &[&Rule], is_markdown: bool, is_whole: bool) -> String {
    let mut out = String::new();
    let part = |out: &mut String, name: &str, text: &str| {
        let _ = if is_markdown {
            writeln!(out, "- **{name}:** {text}")
        } else {
            writeln!(out, "{}", indented(&format!("{name}: {text}")))
        };
    };
    if is_markdown {
        out.push_str("# Findings of rankscope\n\nPrinted by `rankscope rules --markdown`.\n\n");
    }
    for rule in rules {
        let _ = if is_markdown {
            writeln!(out, "## {}\n\n{}.\n", rule.id, rule.title)
        } else {
            writeln!(out, "{}  {}", rule.id, rule.title)
        };
        part(&mut out, "means", rule.means);
        part(&mut out, "fires", rule.fires);
        part(&mut out, "silent", rule.silent);
        if rule.find_declared.is_some() {
            part(&mut out, "needs", "values declared to rankscope report");
        }
        out.push('\n');
    }
    if is_whole {
        out.push_str(if is_markdown {
            "# Not detected yet\n\n"
        } else {
            "Not detected yet\n"
        });
        for (what, why) in NOT_YET {
            part(&mut out, what, why);
        }
    }
    out
}

/// Wraps text to indented lines of at most 100 columns.
fn indented(text: &str) -> String {
    const WIDTH: usize = 100;
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line) if line.chars().count() + 1 + word.chars().count() <= WIDTH => {
                line.push(' ');
                line.push_str(word);
            }
            Some(_) => lines.push(format!("    {word}")),
            None => lines.push(format!("  {word}")),
        }
    }
    lines.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_is_on_the_page() {
        let all: Vec<&Rule> = RULES.iter().collect();
        for is_markdown in [false, true] {
            let page = page(&all, is_markdown, true);
            for rule in RULES {
                assert!(page.contains(rule.id) && page.contains(rule.title), "{}", rule.id);
            }
            assert!(page.contains(NOT_YET[0].0));
        }
        assert!(
            page(&all, false, true)
                .lines()
                .all(|line| line.chars().count() <= 110)
        );
    }
}
