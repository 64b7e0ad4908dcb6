//! Compiled rules, shared by everything in the process that is built from the same content.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use glacis_engine::{BuildErrors, Parts, Program};
use glacis_host::Recipe;
use glacis_rules::{Record, RecordingSource};

/// A program, with what it was built from.
struct Built {
    recipe: Recipe,
    /// The files, each with a digest of its content.
    record: Record,
    program: Weak<Program>,
}

/// What the process has built and still uses.
#[derive(Default)]
struct Programs {
    built: Vec<Built>,
    /// What programs have in common.
    parts: Parts,
}

static PROGRAMS: Mutex<Option<Programs>> = Mutex::new(None);

/// Builds a program, unless there is one of the same recipe whose files are unchanged. The record is of the files.
///
/// One program is built at a time: another thread that wants the same one waits, and shares it.
///
/// # Errors
/// Everything wrong in the rules, each with file, line and a caret.
pub(crate) fn program(recipe: &Recipe) -> Result<(Arc<Program>, Record), BuildErrors> {
    let mut programs = lock();
    let programs = programs.get_or_insert_default();
    programs.built.retain(|built| built.program.strong_count() > 0);
    let same =
        |built: &&Built| built.recipe == *recipe && built.record.as_read() == built.record.now();
    if let Some(built) = programs.built.iter().find(same)
        && let Some(program) = built.program.upgrade()
    {
        return Ok((program, built.record.clone()));
    }
    programs.parts.forget_unused();
    let source = RecordingSource::new();
    let limits = recipe.limits.clone();
    let program = Program::build_with(&recipe.inputs, &source, limits, &mut programs.parts)?;
    let (program, record) = (Arc::new(program), source.into_record());
    programs.built.push(Built {
        recipe: recipe.clone(),
        record: record.clone(),
        program: Arc::downgrade(&program),
    });
    Ok((program, record))
}

fn lock() -> MutexGuard<'static, Option<Programs>> {
    PROGRAMS.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use glacis_engine::{Input, Limits};

    use super::*;

    #[test]
    fn the_same_content_is_built_once() {
        let file =
            std::env::temp_dir().join(format!("glacis-programs-{}.conf", std::process::id()));
        let write = |id: u32| {
            fs::write(&file, format!("SecAction \"id:{id},phase:1,pass\"\n")).unwrap();
        };
        let recipe = |text: &str| Recipe {
            inputs: vec![
                Input::File(file.display().to_string()),
                Input::Text { name: "directives".to_owned(), text: text.to_owned() },
            ],
            setup_end: 0,
            directives_end: 2,
            limits: Limits::default(),
        };
        let built = |text: &str| program(&recipe(text)).map_err(|it| it.to_string()).unwrap().0;
        write(1);
        let one = built("SecRuleEngine On");
        assert!(Arc::ptr_eq(&one, &built("SecRuleEngine On")));
        assert!(!Arc::ptr_eq(&one, &built("SecRuleEngine Off")), "another text");
        write(2);
        assert!(!Arc::ptr_eq(&one, &built("SecRuleEngine On")), "another content of the file");
        fs::remove_file(&file).unwrap();
        let refused = program(&recipe("SecRuleEngine On")).map(|_| ()).unwrap_err().to_string();
        assert!(refused.contains("glacis-programs"), "{refused}");
    }
}
