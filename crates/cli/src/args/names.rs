//! Names of resources: `NAME`, or `-n NAME -g GROUP` as with the Azure CLI.

/// The name of a machine, a set or a service.
#[derive(Clone, Debug, clap::Args)]
pub struct ResourceName {
    /// NAME or GROUP/NAME; for a machine also its vmId.
    #[arg(value_name = "NAME", required_unless_present = "name")]
    positional: Option<String>,
    /// Name, as an option.
    #[arg(short, long, value_name = "NAME", conflicts_with = "positional")]
    name: Option<String>,
    /// Resource group, or the cloud service of a role instance.
    #[arg(short = 'g', long, value_name = "GROUP")]
    resource_group: Option<String>,
}

impl ResourceName {
    pub fn name(&self) -> &str {
        self.positional.as_ref().or(self.name.as_ref()).map_or("", String::as_str)
    }

    /// The resource group and the name of a new resource.
    pub fn parts(&self) -> (Option<&str>, &str) {
        match (&self.resource_group, self.name().split_once('/')) {
            (None, Some((group, name))) => (Some(group), name),
            (group, _) => (group.as_deref(), self.name()),
        }
    }

    /// The name as one segment of an API path.
    pub fn segment(&self) -> String {
        match &self.resource_group {
            Some(group) => format!("{group}/{}", self.name()),
            None => self.name().to_owned(),
        }
    }
}

/// The name of a host. Hosts belong to no resource group.
#[derive(Clone, Debug, clap::Args)]
pub struct HostName {
    /// Host name.
    #[arg(value_name = "NAME", required_unless_present = "name")]
    positional: Option<String>,
    /// Host name, as an option.
    #[arg(short, long, value_name = "NAME", conflicts_with = "positional")]
    name: Option<String>,
}

impl HostName {
    pub fn name(&self) -> &str {
        self.positional.as_ref().or(self.name.as_ref()).map_or("", String::as_str)
    }
}

/// Filter for lists.
#[derive(Clone, Debug, clap::Args)]
pub struct GroupFilter {
    /// Resource group to list.
    #[arg(short = 'g', long, value_name = "GROUP")]
    pub resource_group: Option<String>,
}
