//! Which one is meant: `NAME`, or `-n NAME`, with `-g GROUP` where several have the name.

/// A machine, a set, a service.
#[derive(Clone, Debug, clap::Args)]
pub struct ResourceName {
    /// Its name, or GROUP/NAME where several have it; a machine also by its vmId.
    #[arg(value_name = "NAME", required_unless_present = "name")]
    positional: Option<String>,
    /// The same as NAME.
    #[arg(short, long, value_name = "NAME", conflicts_with = "positional")]
    name: Option<String>,
    /// Its resource group (of a role instance: its cloud service).
    #[arg(short = 'g', long, value_name = "GROUP")]
    resource_group: Option<String>,
}

impl ResourceName {
    pub fn name(&self) -> &str {
        self.positional.as_ref().or(self.name.as_ref()).map_or("", String::as_str)
    }

    /// The resource group and the name of something that is made.
    pub fn parts(&self) -> (Option<&str>, &str) {
        match (&self.resource_group, self.name().split_once('/')) {
            (None, Some((group, name))) => (Some(group), name),
            (group, _) => (group.as_deref(), self.name()),
        }
    }

    /// As one word, which is one segment of the API's paths.
    pub fn segment(&self) -> String {
        match &self.resource_group {
            Some(group) => format!("{group}/{}", self.name()),
            None => self.name().to_owned(),
        }
    }
}

/// A host; it is in no resource group.
#[derive(Clone, Debug, clap::Args)]
pub struct HostName {
    /// Its name.
    #[arg(value_name = "NAME", required_unless_present = "name")]
    positional: Option<String>,
    /// The same as NAME.
    #[arg(short, long, value_name = "NAME", conflicts_with = "positional")]
    name: Option<String>,
}

impl HostName {
    pub fn name(&self) -> &str {
        self.positional.as_ref().or(self.name.as_ref()).map_or("", String::as_str)
    }
}

/// Which ones a list shows.
#[derive(Clone, Debug, clap::Args)]
pub struct GroupFilter {
    /// Only those of this resource group.
    #[arg(short = 'g', long, value_name = "GROUP")]
    pub resource_group: Option<String>,
}
