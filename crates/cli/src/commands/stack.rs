//! `stack`: services in a file, deployed and removed together.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

use clap::{Args, Subcommand};
use hyper::Method;
use model::limits;
use native_api::types::{Change, Service, Stack, StackDeploy, StackDeployed, Task, Written};

use super::Cx;
use super::options::{RegistryFlags, WaitFlags};
use super::service::{self, variable};
use super::show::ListFlags;
use super::tasks::PsFlags;
use crate::client::Route;
use crate::env_file;
use crate::failure::Failure;
use crate::screen::{Screen, short};
use crate::table::{Cell, Table, Tone};
use crate::time;

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Deploy a stack, or change it to what its file says now.
    ///
    /// Variables in the file (${NAME}) have their values from the environment, then from a file .env beside it.
    /// Services that are as the file says are left alone; those that the file has no more are named, and removed with
    /// --prune. Then it waits as `service create` does.
    #[command(visible_alias = "up")]
    Deploy(Deploy),
    /// List stacks.
    #[command(visible_alias = "list")]
    Ls(Ls),
    /// List the tasks of a stack, with the history of each slot.
    Ps(Ps),
    /// List the services of a stack.
    Services(Services),
    /// Remove stacks with their services.
    #[command(visible_aliases = ["remove", "down"])]
    Rm(Rm),
}

/// A stack and its file.
#[derive(Debug, Args)]
pub struct StackFile {
    /// The stack file; - for standard input.
    #[arg(short = 'c', long = "compose-file", value_name = "FILE", required = true)]
    files: Vec<String>,
    /// Remove services that the file has no more.
    #[arg(long, value_name = "BOOL", default_value_t = false, default_missing_value = "true", num_args = 0..=1,
        require_equals = true, action = clap::ArgAction::Set)]
    prune: bool,
    /// Nothing to do: there is no image.
    #[arg(long, hide = true, value_parser = ["always", "changed", "never"])]
    resolve_image: Option<String>,
    #[command(flatten)]
    registry: RegistryFlags,
    /// The stack's name.
    stack: String,
}

#[derive(Debug, Args)]
pub struct Deploy {
    #[command(flatten)]
    of: StackFile,
    /// As JSON: what was done to each service.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    wait: WaitFlags,
}

#[derive(Debug, Args)]
pub struct Ls {
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Args)]
pub struct Ps {
    /// The stack.
    stack: String,
    #[command(flatten)]
    ps: PsFlags,
}

#[derive(Debug, Args)]
pub struct Services {
    /// The stack.
    stack: String,
    #[command(flatten)]
    list: ListFlags,
}

#[derive(Debug, Args)]
pub struct Rm {
    /// The stacks.
    #[arg(required = true, value_name = "STACK")]
    stacks: Vec<String>,
    #[command(flatten)]
    wait: WaitFlags,
}

impl Command {
    /// Does it.
    pub async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        match self {
            Self::Deploy(deploy) => deploy.run(cx).await,
            Self::Ls(ls) => ls.run(cx).await,
            Self::Ps(ps) => {
                let route = Route::new(&["stacks", &ps.stack, "tasks"]);
                let tasks = cx.client.list::<Task>(route).await?.value;
                ps.ps.show(&mut cx.screen, tasks)
            }
            Self::Services(services) => services.run(cx).await,
            Self::Rm(rm) => rm.run(cx).await,
        }
    }
}

impl Deploy {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let body = self.of.body(&variable)?;
        let file = body.file_name.clone();
        let route = Route::new(&["stacks", self.of.name()]);
        let sent = cx.client.change::<StackDeployed>(Method::PUT, route, Some(&body)).await;
        let deployed = sent.map_err(|failure| with_places(failure, &file))?;
        for warning in &deployed.warnings {
            cx.screen.note(format!("warning: {warning}"))?;
        }
        if self.json {
            cx.screen.json(&deployed)?;
        } else {
            deployed.services.iter().try_for_each(|s| cx.screen.line(told(&s.name, s.change)))?;
        }
        cx.screen.flush()?;
        service::tell(cx, &deployed.notes)?;
        let (there, removed) = waited_for(&deployed);
        service::converge_on(cx, &self.wait, there, format!("quelea stack ps {}", deployed.name)).await?;
        service::wait_gone(cx, &self.wait, removed).await
    }
}

impl StackFile {
    /// The stack's name.
    pub fn name(&self) -> &str {
        &self.stack
    }

    /// The request: the text with the values of the variables that it mentions, and no others.
    ///
    /// # Errors
    /// More than one file; or the file, or the `.env` beside it, cannot be read.
    pub fn body(&self, variable: &dyn Fn(&str) -> Option<String>) -> Result<StackDeploy, Failure> {
        let [file] = self.files.as_slice() else {
            return Err(Failure::Usage(
                "a second -c is not supported yet: files are not merged; write one file, with anchors for what is shared".into(),
            ));
        };
        let (source, file_name) = read_source(file)?;
        // Beside the file, as compose does it; what comes from standard input belongs to where we are.
        let beside = if file == "-" { Path::new("stdin") } else { Path::new(file) };
        let dotenv = read_dotenv(beside, variable)?;
        let value = |name: String| {
            let value = variable(&name).or_else(|| dotenv.get(&name).cloned())?;
            Some((name, value))
        };
        let variables = specs::variables(&source).into_iter().filter_map(value).collect();
        Ok(StackDeploy { source, file_name, variables, prune: self.prune })
    }
}

/// The text of a stack file and what to call it.
fn read_source(file: &str) -> Result<(String, String), Failure> {
    let name = if file == "-" { "<stdin>" } else { file };
    let failed = |e: &dyn std::fmt::Display| Failure::Refused(format!("{name}: {e}"));
    let mut bytes = Vec::new();
    // One byte more than is allowed: enough to know that it is too much, however large it is.
    let most = limits::SPEC_BYTES as u64 + 1;
    let read = match file {
        "-" => std::io::stdin().lock().take(most).read_to_end(&mut bytes),
        path => std::fs::File::open(path).and_then(|f| f.take(most).read_to_end(&mut bytes)),
    };
    read.map_err(|e| failed(&e))?;
    if bytes.len() > limits::SPEC_BYTES {
        return Err(failed(&format!("the file is larger than {} bytes", limits::SPEC_BYTES)));
    }
    let text = String::from_utf8(bytes).map_err(|e| {
        let line = e.as_bytes()[..e.utf8_error().valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
        failed(&format!("line {line} is not UTF-8 text"))
    })?;
    Ok((text, name.to_owned()))
}

fn read_dotenv(
    stack_file: &Path,
    variable: &dyn Fn(&str) -> Option<String>,
) -> Result<BTreeMap<String, String>, Failure> {
    let path = stack_file.with_file_name(".env");
    let text = match std::fs::read_to_string(&path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(BTreeMap::new()),
        Err(e) => return Err(Failure::Refused(format!("{}: {e}", path.display()))),
    };
    let lines =
        env_file::parse_dotenv(&text).map_err(|e| Failure::Refused(format!("{}: {e}", path.display())))?;
    let value = |(name, value): env_file::Line| {
        let value = value.or_else(|| variable(&name))?;
        Some((name, value))
    };
    Ok(lines.into_iter().filter_map(value).collect())
}

/// A refusal of a file, each problem on a line of its own with its place.
pub fn with_places(failure: Failure, file: &str) -> Failure {
    let Failure::Api { body, .. } = &failure else { return failure };
    if body.problems.is_empty() {
        return failure;
    }
    let show = |p: &native_api::types::Problem| {
        let field = if p.field.is_empty() { String::new() } else { format!("{}: ", p.field) };
        let place = if p.line == 0 { String::new() } else { format!("{}:{}:", p.line, p.column) };
        format!("{file}:{place} {field}{}", p.message)
    };
    Failure::Refused(body.problems.iter().map(show).collect::<Vec<_>>().join("\nquelea: "))
}

fn told(name: &str, change: Change) -> String {
    let what = match change {
        Change::Created => "created",
        Change::Updated => "updated",
        Change::Adjusted => "updated without replacing tasks",
        Change::Unchanged => "unchanged",
        Change::Removed => "removed: the file has it no more",
        Change::Kept => "kept although the file has it no more; --prune removes it",
    };
    format!("{name} {what}")
}

/// The services that shall be there after a deployment, and those that shall be gone.
fn waited_for(deployed: &StackDeployed) -> (Vec<Written>, Vec<Written>) {
    let written = |s: &native_api::types::ServiceChange| Written {
        id: s.id.clone(),
        name: s.name.clone(),
        version: 0,
        index: deployed.index,
        changed: s.change != Change::Unchanged,
        notes: Vec::new(),
    };
    let (removed, there): (Vec<_>, Vec<_>) =
        deployed.services.iter().partition(|s| s.change == Change::Removed);
    let there = there.into_iter().filter(|s| s.change != Change::Kept);
    (there.map(written).collect(), removed.into_iter().map(written).collect())
}

impl Ls {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut stacks = cx.client.list::<Stack>(Route::new(&["stacks"])).await?.value;
        stacks.sort_by(|a, b| a.name.cmp(&b.name));
        show(&mut cx.screen, &stacks, &self.list)
    }
}

fn show(screen: &mut Screen, stacks: &[Stack], list: &ListFlags) -> Result<(), Failure> {
    list.show(screen, stacks, |s| &s.id, |screen| table(stacks, screen.now(), list.no_trunc))
}

fn table(stacks: &[Stack], now: jiff::Timestamp, whole: bool) -> Table {
    let mut table = Table::new(&["ID", "NAME", "SERVICES", "TASKS", "DEPLOYED"]);
    for stack in stacks {
        let steady = stack.services.iter().all(|s| s.converged);
        table.row(vec![
            short(&stack.id, whole).into(),
            stack.name.as_str().into(),
            stack.services.len().to_string().into(),
            Cell::new(
                format!("{}/{}", stack.running, stack.wanted),
                if steady { Tone::Good } else { Tone::Waiting },
            ),
            time::ago(&stack.updated_at, now).into(),
        ]);
    }
    table
}

impl Services {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let stack = cx.client.get::<Stack>(Route::new(&["stacks", &self.stack])).await?.value;
        let mut services = cx.client.list::<Service>(Route::new(&["services"])).await?.value;
        services.retain(|s| stack.services.iter().any(|ours| ours.id == s.id));
        services.sort_by(|a, b| a.name.cmp(&b.name));
        service::show_list(&mut cx.screen, &services, &self.list)
    }
}

impl Rm {
    async fn run(self, cx: &mut Cx) -> Result<(), Failure> {
        let mut removed = Vec::new();
        for name in &self.stacks {
            let stack = cx.client.get::<Stack>(Route::new(&["stacks", name])).await?.value;
            let written: Written = cx.client.delete(Route::new(&["stacks", &stack.id])).await?;
            let services = stack.services.into_iter().map(|s| Written {
                id: s.id,
                name: s.name,
                version: 0,
                index: written.index,
                changed: true,
                notes: Vec::new(),
            });
            removed.push((written.name, services.collect()));
        }
        service::removed_one_by_one(cx, &self.wait, removed).await
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use serde_json::json;

    use super::*;
    use crate::screen::tests::paper;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        deploy: Deploy,
    }

    fn deploy(args: &[&str]) -> Deploy {
        Line::try_parse_from(["deploy"].iter().chain(args)).unwrap_or_else(|e| panic!("{e}")).deploy
    }

    #[test]
    fn only_variables_of_the_file_are_sent() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("s.yaml");
        std::fs::write(&file, "services:\n  web:\n    command: run $A ${B:-x} $C $D\n").unwrap();
        std::fs::write(dir.path().join(".env"), "B=\"dot env\"\nA=dotenv\nD\nE=never sent\n").unwrap();
        let path = file.to_str().unwrap();
        let environment = |name: &str| match name {
            "A" | "D" | "SECRET" => Some(format!("env-{name}")),
            _ => None,
        };
        let body = deploy(&["-c", path, "shop"]).of.body(&environment).unwrap();
        assert_eq!(
            serde_json::to_value(&body).unwrap(),
            json!({
                "source": "services:\n  web:\n    command: run $A ${B:-x} $C $D\n", "file_name": path, "prune": false,
                "variables": {"A": "env-A", "B": "dot env", "D": "env-D"},
            })
        );
    }

    #[test]
    fn a_file_from_standard_input_has_its_variables_from_here() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(".env"), "A=here\n").unwrap();
        let read = read_dotenv(&dir.path().join("stdin"), &|_| None).unwrap();
        assert_eq!(read, BTreeMap::from([("A".to_owned(), "here".to_owned())]));
        // A name without a directory is looked up where we are.
        assert_eq!(Path::new("stdin").with_file_name(".env"), Path::new(".env"));
    }

    #[test]
    fn a_second_file_is_refused() {
        let failure = deploy(&["-c", "a", "-c", "b", "shop"]).of.body(&|_| None).unwrap_err();
        assert!(matches!(&failure, Failure::Usage(s) if s.contains("a second -c is not supported yet")));
    }

    #[test]
    fn pruning_can_be_turned_off() {
        for (args, prune) in
            [(&[][..], false), (&["--prune"], true), (&["--prune=true"], true), (&["--prune=false"], false)]
        {
            let args: Vec<&str> = ["-c", "f"].iter().chain(args).chain(&["shop"]).copied().collect();
            assert_eq!(deploy(&args).of.prune, prune, "{args:?}");
        }
    }

    #[test]
    fn files_that_cannot_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let write = |name: &str, bytes: &[u8]| {
            let path = dir.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            path.to_str().unwrap().to_owned()
        };
        let (big, binary) = (write("big", &vec![b'x'; 10 << 20]), write("bin", b"a\nb\n\xff"));
        let missing = dir.path().join("missing").to_str().unwrap().to_owned();
        for (path, said) in [
            (&big, "the file is larger than 1048576 bytes"),
            (&binary, "line 3 is not UTF-8 text"),
            (&missing, "No such file or directory (os error 2)"),
        ] {
            let failure = deploy(&["-c", path, "shop"]).of.body(&|_| None).unwrap_err();
            assert!(matches!(failure, Failure::Refused(_)));
            assert_eq!(failure.to_string(), format!("{path}: {said}"));
        }
    }

    #[test]
    fn each_problem_has_its_place() {
        let body = serde_json::from_value(json!({"error": "2 problems", "problems": [
            {"line": 3, "column": 5, "field": "services.web.image", "message": "no"},
            {"line": 0, "column": 0, "field": "", "message": "and no"},
        ]}))
        .unwrap();
        let failure = with_places(Failure::Api { status: 400, body: Box::new(body) }, "f.yaml");
        assert_eq!(failure.to_string(), "f.yaml:3:5: services.web.image: no\nquelea: f.yaml: and no");
    }

    #[test]
    fn the_list_of_stacks() {
        let stack = serde_json::from_value(json!({
            "id": "0123456789abcdefghijklmno", "name": "shop", "version": 1, "changed": 2, "number": 3,
            "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:57:00Z", "wanted": 4, "running": 3,
            "services": [{"id": "s", "name": "shop_web", "mode": "replicated", "wanted": 4, "running": 3, "converged": false}],
        }))
        .unwrap();
        let (mut screen, out, _) = paper();
        #[derive(Debug, Parser)]
        struct Flags {
            #[command(flatten)]
            list: ListFlags,
        }
        show(&mut screen, &[stack], &Flags::parse_from(["ls"]).list).unwrap();
        assert_eq!(
            out.text(),
            "\
ID            NAME  SERVICES  TASKS  DEPLOYED
0123456789ab  shop  1         3/4    3 minutes ago
"
        );
    }
}
