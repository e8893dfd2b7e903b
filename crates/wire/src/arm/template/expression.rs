//! The expression language: `concat('a', parameters('b').c[0])`.
//!
//! ```text
//! expression = ( text | integer | name "(" [ expression { "," expression } ] ")" ) { "." name | "[" expression "]" }
//! text       = "'" { any character, a ' doubled } "'"
//! ```
//!
//! This module does not know any functions. Positions are byte offsets in the whole text, including the
//! brackets.

use super::error::Problem;
use super::{DEPTH_MAX, EXPRESSION_BYTES_MAX};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Expression {
    Text(String),
    Integer(i64),
    Call { name: String, at: usize, arguments: Vec<Expression> },
    Member { of: Box<Expression>, at: usize, name: String },
    Index { of: Box<Expression>, at: usize, index: Box<Expression> },
}

/// The kinds of text in a template.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Text<'a> {
    Literal(&'a str),
    /// Includes the brackets.
    Expression(&'a str),
}

/// A problem and the byte offset where it was found.
pub(super) type ExpressionError = (usize, Problem);

pub(super) fn classify(text: &str) -> Text<'_> {
    match text.as_bytes() {
        [b'[', b'[', .., b']'] => Text::Literal(&text[1..]),
        [b'[', .., b']'] => Text::Expression(text),
        _ => Text::Literal(text),
    }
}

/// Parses a text that [`classify`] identified as an expression.
pub(super) fn parse(text: &str) -> Result<Expression, ExpressionError> {
    if text.len() > EXPRESSION_BYTES_MAX {
        return Err((0, Problem::ExpressionTooLong));
    }
    let mut parser = Parser { text, at: 1, end: text.len() - 1, depth: 0 };
    let expression = parser.expression()?;
    match parser.peek() {
        None => Ok(expression),
        Some(_) => Err(parser.expected("the end")),
    }
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    /// Offset of the closing bracket.
    end: usize,
    depth: usize,
}

impl Parser<'_> {
    fn expression(&mut self) -> Result<Expression, ExpressionError> {
        let depth_before = self.depth;
        self.descend()?;
        let mut expression = self.primary()?;
        loop {
            let (next, at) = (self.peek(), self.at);
            expression = match next {
                Some(b'.') => Expression::Member { of: Box::new(expression), at, name: self.member()? },
                Some(b'[') => Expression::Index { of: Box::new(expression), at, index: Box::new(self.index()?) },
                Some(_) | None => break,
            };
            // Each step nests the preceding expression one level deeper, as a call does.
            self.descend()?;
        }
        self.depth = depth_before;
        Ok(expression)
    }

    fn primary(&mut self) -> Result<Expression, ExpressionError> {
        match self.peek() {
            Some(b'\'') => self.quoted(),
            Some(b'-' | b'0'..=b'9') => self.integer(),
            Some(byte) if is_name(byte) => self.call(),
            Some(_) | None => Err(self.expected("a function, a string in single quotes or a number")),
        }
    }

    fn quoted(&mut self) -> Result<Expression, ExpressionError> {
        let start = self.at;
        let mut value = String::new();
        self.at += 1;
        loop {
            let rest = &self.text[self.at..self.end];
            let Some(length) = rest.find('\'') else {
                return Err((start, Problem::Syntax { expected: "the closing quote of this string" }));
            };
            value.push_str(&rest[..length]);
            self.at += length + 1;
            if !self.text[self.at..self.end].starts_with('\'') {
                return Ok(Expression::Text(value));
            }
            value.push('\'');
            self.at += 1;
        }
    }

    fn integer(&mut self) -> Result<Expression, ExpressionError> {
        let start = self.at;
        let rest = &self.text[start..self.end];
        let digits = rest.bytes().skip(1).take_while(u8::is_ascii_digit).count();
        self.at += 1 + digits;
        let number = self.text[start..self.at].parse();
        number.map(Expression::Integer).map_err(|_| (start, Problem::Syntax { expected: "a 64-bit whole number" }))
    }

    fn call(&mut self) -> Result<Expression, ExpressionError> {
        let at = self.at;
        let name = self.name()?;
        self.take(b'(', "an opening parenthesis")?;
        let mut arguments = Vec::new();
        if self.peek() == Some(b')') {
            self.at += 1;
            return Ok(Expression::Call { name, at, arguments });
        }
        loop {
            arguments.push(self.expression()?);
            match self.peek() {
                Some(b',') => self.at += 1,
                Some(b')') => {
                    self.at += 1;
                    return Ok(Expression::Call { name, at, arguments });
                }
                Some(_) | None => return Err(self.expected("a comma or a closing parenthesis")),
            }
        }
    }

    fn member(&mut self) -> Result<String, ExpressionError> {
        self.at += 1;
        self.peek();
        self.name()
    }

    fn index(&mut self) -> Result<Expression, ExpressionError> {
        self.at += 1;
        let index = self.expression()?;
        self.take(b']', "a closing bracket")?;
        Ok(index)
    }

    fn name(&mut self) -> Result<String, ExpressionError> {
        let rest = &self.text[self.at..self.end];
        let length = rest.bytes().take_while(|&byte| is_name(byte)).count();
        if length == 0 {
            return Err(self.expected("a name"));
        }
        self.at += length;
        Ok(rest[..length].to_owned())
    }

    fn take(&mut self, byte: u8, expected: &'static str) -> Result<(), ExpressionError> {
        if self.peek() != Some(byte) {
            return Err(self.expected(expected));
        }
        self.at += 1;
        Ok(())
    }

    /// Moves to the next byte that is not a space, and returns it.
    fn peek(&mut self) -> Option<u8> {
        let rest = &self.text.as_bytes()[self.at..self.end];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        self.at += blanks;
        rest.get(blanks).copied()
    }

    fn descend(&mut self) -> Result<(), ExpressionError> {
        if self.depth == DEPTH_MAX {
            return Err((self.at, Problem::TooDeep));
        }
        self.depth += 1;
        Ok(())
    }

    fn expected(&self, expected: &'static str) -> ExpressionError {
        (self.at, Problem::Syntax { expected })
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Renders the expression without spaces and commas, or the position and the message.
    fn render(text: &str) -> String {
        match parse(text) {
            Ok(expression) => written(&expression),
            Err((at, problem)) => format!("{at}: {problem}"),
        }
    }

    fn written(expression: &Expression) -> String {
        match expression {
            Expression::Text(text) => format!("{text:?}"),
            Expression::Integer(number) => number.to_string(),
            Expression::Call { name, arguments, .. } => {
                format!("{name}({})", arguments.iter().map(written).collect::<Vec<_>>().join(" "))
            }
            Expression::Member { of, name, .. } => format!("{}.{name}", written(of)),
            Expression::Index { of, index, .. } => format!("{}[{}]", written(of), written(index)),
        }
    }

    fn check(text: &str, expected: &str) {
        assert_eq!(render(text), expected, "{text:?}");
    }

    fn check_error(text: &str, at: usize, missing: &str) {
        check(
            text,
            &format!(
                "{at}: Invalid expression: expected {missing}. If the text is not an expression but starts with [, \
                 write [[ instead."
            ),
        );
    }

    #[test]
    fn expressions_are_parsed() {
        check("['a']", r#""a""#);
        check("['it''s']", r#""it's""#);
        check("['']", r#""""#);
        check("['''']", r#""'""#);
        check("[-5]", "-5");
        check("[f()]", "f()");
        check("[ f ( 1 , 'b' ) ]", r#"f(1 "b")"#);
        check("[f(g(1), h()).a.b[0]['c']]", r#"f(g(1) h()).a.b[0]["c"]"#);
        check("[f() .a [ 1 ] ]", "f().a[1]");
        check("['é]']", r#""é]""#);
    }

    #[test]
    fn only_text_in_brackets_is_an_expression() {
        assert_eq!(classify("[f()]"), Text::Expression("[f()]"));
        assert_eq!(classify("[[f()]"), Text::Literal("[f()]"));
        assert_eq!(classify("[[f()"), Text::Literal("[[f()"));
        assert_eq!(classify("[f()"), Text::Literal("[f()"));
        assert_eq!(classify("f()]"), Text::Literal("f()]"));
        assert_eq!(classify(""), Text::Literal(""));
        assert_eq!(classify("["), Text::Literal("["));
        assert_eq!(classify("[]"), Text::Expression("[]"));
    }

    #[test]
    fn errors_include_the_position() {
        let start = "a function, a string in single quotes or a number";
        check_error("[]", 1, start);
        check_error("[f(]", 3, start);
        check_error("[f(1 2)]", 5, "a comma or a closing parenthesis");
        check_error("[f(1]", 4, "a comma or a closing parenthesis");
        check_error("[f() g()]", 5, "the end");
        check_error("[f]", 2, "an opening parenthesis");
        check_error("['a]", 1, "the closing quote of this string");
        check_error("[f().]", 5, "a name");
        check_error("[f()[1]", 6, "a closing bracket");
        check_error("[é]", 1, start);
        check_error("[99999999999999999999]", 1, "a 64-bit whole number");
        check_error("[-]", 1, "a 64-bit whole number");
    }

    #[test]
    fn length_and_depth_are_limited() {
        let nested = |depth: usize| format!("[{}1{}]", "f(".repeat(depth), ")".repeat(depth));
        assert!(parse(&nested(DEPTH_MAX - 1)).is_ok());
        assert_eq!(parse(&nested(DEPTH_MAX)).unwrap_err().1, Problem::TooDeep);
        let members = |count: usize| format!("[f(){}]", ".a".repeat(count));
        assert!(parse(&members(DEPTH_MAX - 1)).is_ok());
        assert_eq!(parse(&members(DEPTH_MAX)).unwrap_err().1, Problem::TooDeep);
        // Adjacent expressions do not count as nested.
        assert!(parse(&format!("[f({}1)]", "g().a[0], ".repeat(2 * DEPTH_MAX))).is_ok());
        let long = |length: usize| format!("['{}']", "x".repeat(length - 4));
        assert!(parse(&long(EXPRESSION_BYTES_MAX)).is_ok());
        assert_eq!(parse(&long(EXPRESSION_BYTES_MAX + 1)).unwrap_err(), (0, Problem::ExpressionTooLong));
    }

    proptest! {
        #[test]
        fn parsing_any_text_does_not_panic(text: String) {
            let _ = parse(&format!("[{text}]"));
        }

        #[test]
        fn nor_does_text_that_looks_like_an_expression(text in r"(f\(|\)|,|'|\[|\]|\.|a|1|-| |é){0,30}") {
            if let Err((at, _)) = parse(&format!("[{text}]")) {
                prop_assert!(at <= text.len() + 1);
            }
        }
    }
}
