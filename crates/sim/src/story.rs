//! Running a script: as a story, whose requests are waited for and whose output is kept, or as a random run, which only has to keep the promises.

use std::fmt::Write as _;

use model::Span;

use crate::script::{Command, ScriptError, parse};
use crate::show;
use crate::world::{Broken, World};

/// How a script is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Telling {
    /// Requests are waited for, and everything that is shown is written down.
    Story,
    /// Requests go on while the script does, and nothing is written down.
    Random,
    /// As `Random`, and the fingerprint is of every value of every effect.
    Exact,
}

/// What came of a script.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What a story shows.
    pub text: String,
    /// The promises that were broken; the run ended with the first.
    pub broken: Vec<Broken>,
    /// The fingerprint of all effects, and their number.
    pub fingerprint: (u64, u64),
    /// How many things happened.
    pub happened: u64,
    /// How much time passed.
    pub age: Span,
}

/// The longest stretch between two looks at what is left to do.
const LOOK_EVERY: Span = Span::from_secs(30);

/// How long a story waits for the answer to a request.
const PATIENCE: Span = Span::from_secs(60);

/// Runs the text of a story.
///
/// # Errors
/// The first line that cannot be understood.
pub fn tell(text: &str) -> Result<Outcome, ScriptError> {
    Ok(run(&parse(text)?, Telling::Story))
}

/// Runs commands from the beginning of a world. `seed` and `managers` count before anything else happens.
pub fn run(commands: &[Command], telling: Telling) -> Outcome {
    let seed = commands.iter().find_map(|c| if let Command::Seed(n) = c { Some(*n) } else { None });
    let managers = commands.iter().find_map(|c| if let Command::Managers(n) = c { Some(*n) } else { None });
    let world = World::new(seed.unwrap_or(1), managers.unwrap_or(3), telling == Telling::Exact);
    let mut teller = Teller { world, telling, text: String::new() };
    for command in commands {
        teller.tell(command);
        if !teller.world.broken().is_empty() {
            break;
        }
    }
    let world = teller.world;
    for broken in world.broken() {
        let _ = writeln!(teller.text, "BROKEN {broken}");
    }
    Outcome {
        text: teller.text,
        broken: world.broken().to_vec(),
        fingerprint: world.fingerprint(),
        happened: world.happened(),
        age: world.age(),
    }
}

struct Teller {
    world: World,
    telling: Telling,
    text: String,
}

impl Teller {
    fn tell(&mut self, command: &Command) {
        if self.telling == Telling::Story {
            let _ = writeln!(self.text, "> {command}");
        }
        match command {
            Command::Seed(_) | Command::Managers(_) => {}
            Command::Run(span) => self.pass(*span),
            Command::Converge(within) => self.converge(*within),
            Command::ShowTasks(only) => self.show(show::tasks(self.world.tables(), only.as_deref())),
            Command::ShowNodes => self.show(show::nodes(self.world.tables())),
            Command::ShowServices => self.show(show::services(self.world.tables())),
            Command::Why(service) => {
                let text = show::why(self.world.tables(), service, World::BEGIN);
                self.show(text);
            }
            Command::Calm => self.world.end_faults(),
            Command::Nodes { .. } => {
                // A machine that nobody has made a member yet is refused, and calls again.
                self.ask(command);
                self.world.add_machines(command);
            }
            Command::RemoveNode(node) => {
                self.ask(command);
                self.world.scrap(*node);
            }
            Command::Cluster(_)
            | Command::Service { .. }
            | Command::Update { .. }
            | Command::Scale { .. }
            | Command::Promote(_)
            | Command::Abort(_)
            | Command::Rollback(_)
            | Command::Remove(_)
            | Command::Availability { .. }
            | Command::DrainWithin { .. }
            | Command::Label { .. } => self.ask(command),
            fault => {
                if let Err(problem) = self.world.befall(fault) {
                    self.show(format!("{problem}\n"));
                }
            }
        }
    }

    fn show(&mut self, text: String) {
        if self.telling == Telling::Story {
            self.text.push_str(&text);
        }
    }

    fn pass(&mut self, span: Span) {
        let mut left = span;
        while left > Span::ZERO && self.world.broken().is_empty() {
            let step = left.min(LOOK_EVERY);
            self.world.run_for(step);
            left = Span(left.0 - step.0);
            self.world.check_quiet();
        }
    }

    fn converge(&mut self, within: Span) {
        // What was done just before has not begun to show.
        self.world.run_for(Span::from_secs(1));
        let begin = self.world.now();
        while self.world.has_open_requests() && self.world.now().since(begin) < PATIENCE {
            self.world.run_for(Span::from_secs(1));
        }
        if self.world.converge(within).is_some() {
            self.world.check_quiet();
            self.world.compare_all();
            self.show("everything is as wanted\n".into());
        }
    }

    fn ask(&mut self, command: &Command) {
        let request = self.world.request(command.clone());
        if self.telling != Telling::Story {
            return;
        }
        let begin = self.world.now();
        while self.world.answer_to(request).is_none()
            && self.world.now().since(begin) < PATIENCE
            && self.world.broken().is_empty()
        {
            self.world.run_for(Span::from_millis(5));
        }
        match self.world.answer_to(request) {
            Some(Ok(done)) if done == "done" => {}
            Some(Ok(other)) => self.show(format!("{other}\n")),
            Some(Err(refused)) => self.show(format!("refused: {refused}\n")),
            None => self.show("no answer yet\n".into()),
        }
    }
}
