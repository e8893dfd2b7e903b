//! What can be done on a page: buttons that open, say what will happen, and then do it.

use askama::Template;

use super::page::{Fragment, Panel, Scene};
use super::{sign_in, words};
use forewarn_access::Role;

/// A button and what is said before it does what it says.
pub struct Button {
    pub act: &'static str,
    pub label: &'static str,
    /// HTML.
    pub foretold: String,
    /// HTML of fields that it takes.
    pub fields: String,
    pub needs: Role,
    pub tone: Tone,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    Calm,
    /// Something is lost.
    Danger,
}

/// The buttons of one thing.
pub struct Actions<'s> {
    scene: &'s Scene,
    target: String,
    back: String,
    fragments: Vec<Fragment>,
}

#[derive(Template)]
#[template(path = "action.html")]
struct Shown<'a> {
    id: &'a str,
    sort: &'a str,
    button: &'a Button,
    target: &'a str,
    allowed: bool,
    csrf: &'a str,
    back: &'a str,
}

#[derive(Template)]
#[template(path = "link.html")]
struct Link<'a> {
    id: &'a str,
    sort: &'a str,
    label: &'a str,
    href: &'a str,
}

impl Button {
    pub fn new(act: &'static str, label: &'static str, foretold: String, needs: Role, tone: Tone) -> Button {
        Button { act, label, foretold, fields: String::new(), needs, tone }
    }

    pub fn with(self, fields: String) -> Button {
        Button { fields, ..self }
    }

    /// As an element with this id.
    pub fn html(&self, scene: &Scene, (id, sort): (&str, &str), target: &str, back: &str) -> String {
        let (allowed, csrf) = (scene.visitor.may(self.needs), scene.visitor.session.csrf.as_str());
        sign_in::rendered(&Shown { id, sort, button: self, target, allowed, csrf, back }).0
    }

    fn needed(&self) -> String {
        words::role_needed(self.needs)
    }

    fn is_danger(&self) -> bool {
        self.tone == Tone::Danger
    }
}

impl<'s> Actions<'s> {
    pub fn new(scene: &'s Scene, target: impl Into<String>, back: impl Into<String>) -> Actions<'s> {
        Actions { scene, target: target.into(), back: back.into(), fragments: Vec::new() }
    }

    #[must_use]
    pub fn button(self, button: Button) -> Actions<'s> {
        let target = self.target.clone();
        self.button_of(&target, button)
    }

    /// One that is about something else.
    #[must_use]
    pub fn button_of(mut self, target: &str, button: Button) -> Actions<'s> {
        let (id, sort) = (format!("do-{}", button.act), self.next());
        let html = button.html(self.scene, (&id, &sort), target, &self.back);
        self.fragments.push(Fragment { id, sort, html });
        self
    }

    /// Something with a page of its own.
    #[must_use]
    pub fn link(mut self, act: &str, label: &str, href: &str) -> Actions<'s> {
        let (id, sort) = (format!("do-{act}"), self.next());
        self.fragments.push(Fragment::of(&id, &sort, &Link { id: &id, sort: &sort, label, href }));
        self
    }

    pub fn panel(self) -> Panel {
        Panel::new("actions", "Actions", self.fragments)
    }

    fn next(&self) -> String {
        format!("{:02}", self.fragments.len())
    }
}
