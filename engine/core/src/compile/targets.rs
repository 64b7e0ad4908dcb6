//! Targets: what was written → which values.

use seclang::{Selector, Target as Written};

use super::{Compiler, operators::NEEDS_BACKTRACKING};
use crate::{
    pattern::NamePattern,
    program::{Select, Target},
    variable::{Kind, Variable},
    xpath::XPath,
};

impl Compiler<'_> {
    /// Lowers a rule's targets; exclusions become exceptions of the targets they concern.
    pub(super) fn lower_targets(&mut self, written: &[Written]) -> Vec<Target> {
        let mut targets: Vec<Target> = Vec::new();
        let mut exclusions = Vec::new();
        for target in written {
            let Some((variable, select)) = self.lower_target(target, target.exclude) else {
                continue;
            };
            if target.exclude {
                exclusions.push((variable, select));
            } else {
                targets.push(Target { variable, select, count: target.count, except: Vec::new() });
            }
        }
        for (variable, select) in exclusions {
            except(&mut targets, variable, &select);
        }
        targets
    }

    /// The variable and members that a target means; an error is reported and gives `None`.
    pub(super) fn lower_target(
        &mut self,
        target: &Written,
        takes_away: bool,
    ) -> Option<(Variable, Select)> {
        let name = &target.variable.text;
        let Some(variable) = Variable::from_name(name) else {
            let why = Variable::unknown(name, "");
            self.error(target.variable.span, &format!("{name}: {why}"));
            return None;
        };
        let select = match (&target.selector, variable) {
            (Some(Selector::Key(key)), Variable::Xml) => self.xpath(&key.text),
            // In ModSecurity a name that holds nothing to look at; an exclusion takes all of it away.
            (None, Variable::Xml) if takes_away => Ok(Select::All),
            (None, Variable::Xml) => Ok(Select::XmlText),
            (Some(Selector::Pattern(_)), Variable::Xml) => {
                Err("XML needs an expression: XML:/*, XML://@* or a path".to_owned())
            }
            (None, _) => Ok(Select::All),
            (Some(_), _) if variable.kind() == Kind::Scalar => {
                Err(format!("{name} has one value; remove what follows the colon"))
            }
            (Some(Selector::Key(key)), Variable::Tx) => self.slot(&key.text).map(Select::Slot),
            (Some(Selector::Key(key)), _) => {
                Ok(Select::Key(key.text.to_ascii_lowercase().into_bytes().into()))
            }
            (Some(Selector::Pattern(pattern)), _) => {
                name_pattern(&pattern.text, self.limits.backtrack_steps_max)
            }
        };
        if select.as_ref().is_ok_and(Select::backtracks) {
            self.warn(target.span, NEEDS_BACKTRACKING);
        }
        select.map_err(|why| self.error(target.span, &why)).ok().map(|select| (variable, select))
    }

    fn xpath(&mut self, expression: &str) -> Result<Select, String> {
        match expression {
            "/*" | "//*" => return Ok(Select::XmlText),
            "//@*" => return Ok(Select::XmlAttributes),
            _ => {}
        }
        let path = XPath::parse(expression)?;
        if !self.xpaths.contains(&path) {
            if self.xpaths.len() >= XPATHS_MAX {
                return Err(format!("the rules look for more than {XPATHS_MAX} paths in XML"));
            }
            self.xpaths.push(path);
        }
        Ok(Select::XPath(expression.as_bytes().into()))
    }
}

/// Paths that one ruleset may look for: each costs at every element of an XML body.
const XPATHS_MAX: usize = 64;

/// Names of members are compared without regard to case, and so are patterns for them.
fn name_pattern(pattern: &str, steps_max: usize) -> Result<Select, String> {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-');
    if let Some(prefix) = pattern.strip_prefix('^').map(str::as_bytes)
        && prefix.iter().all(plain)
    {
        return Ok(Select::Prefix(prefix.to_ascii_lowercase().into()));
    }
    NamePattern::new(pattern, steps_max).map(Select::Pattern)
}

/// Takes members away from the targets that look at them.
pub(super) fn except(targets: &mut Vec<Target>, variable: Variable, select: &Select) {
    match select {
        Select::All => targets.retain(|target| target.variable != variable),
        Select::XmlText | Select::XmlAttributes | Select::XPath(_) => {
            let same = |other: &Select| match (other, select) {
                (Select::XPath(other), Select::XPath(path)) => other == path,
                _ => core::mem::discriminant(other) == core::mem::discriminant(select),
            };
            targets.retain(|target| target.variable != variable || !same(&target.select));
        }
        _ => {
            for target in targets.iter_mut().filter(|target| target.variable == variable) {
                target.except.push(select.clone());
            }
        }
    }
}
