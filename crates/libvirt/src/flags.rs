//! Flags of calls.

/// Defines a set of flags with the operator `|`.
macro_rules! flags {
    ($(#[$meta:meta])* $name:ident { $($(#[$flag_meta:meta])* $flag:ident = $value:expr;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct $name(pub u32);

        impl $name {
            /// No flags.
            pub const NONE: $name = $name(0);
            $($(#[$flag_meta])* pub const $flag: $name = $name($value);)*
        }

        impl std::ops::BitOr for $name {
            type Output = $name;

            fn bitor(self, other: $name) -> $name {
                $name(self.0 | other.0)
            }
        }
    };
}

flags! {
    /// The configuration that a change or a query is about. Without flags: the live one if the domain runs.
    Affect {
        /// The running domain.
        LIVE = 1;
        /// The persistent configuration.
        CONFIG = 2;
    }
}

flags! {
    /// Content of a domain's XML.
    XmlFlags {
        /// Include passwords and other secrets.
        SECURE = 1;
        /// The persistent configuration instead of the running one.
        INACTIVE = 2;
        /// Only what other hosts and versions understand.
        MIGRATABLE = 8;
    }
}

flags! {
    /// How a domain is started.
    CreateFlags {
        /// Leave the domain paused.
        PAUSED = 1;
        /// Destroy the domain when the connection ends.
        AUTODESTROY = 2;
        /// Ignore a managed save image.
        FORCE_BOOT = 16;
    }
}

flags! {
    /// How a definition is checked.
    DefineFlags {
        /// Validate the document against libvirt's schema.
        VALIDATE = 1;
    }
}

flags! {
    /// How a domain is destroyed.
    DestroyFlags {
        /// Only with SIGTERM, so that QEMU can write its caches. Fails if QEMU does not end.
        GRACEFUL = 1;
    }
}

flags! {
    /// How a guest is asked to shut down. Without flags, libvirt chooses.
    ShutdownFlags {
        /// Press the power button.
        ACPI = 1;
        /// Ask the agent in the guest.
        GUEST_AGENT = 2;
    }
}

flags! {
    /// Things to remove with a definition. Without the matching flag, libvirt refuses to undefine a domain that has it.
    UndefineFlags {
        /// The managed save image.
        MANAGED_SAVE = 1;
        /// Metadata of snapshots.
        SNAPSHOTS_METADATA = 2;
        /// The file with firmware variables.
        NVRAM = 4;
        /// Keep the file with firmware variables.
        KEEP_NVRAM = 8;
        /// Metadata of checkpoints.
        CHECKPOINTS_METADATA = 16;
    }
}

flags! {
    /// How a domain is migrated.
    MigrateFlags {
        /// The guest runs while its memory is copied.
        LIVE = 1;
        /// The source host talks to the target host. Always set.
        PEER2PEER = 2;
        /// Send the data through the connection between the libvirtds.
        TUNNELLED = 4;
        /// Make the domain persistent at the target.
        PERSIST_DEST = 8;
        /// Remove the definition at the source afterward.
        UNDEFINE_SOURCE = 16;
        /// Leave the domain paused at the target.
        PAUSED = 32;
        /// Copy the disks too.
        NON_SHARED_DISK = 64;
        /// Migrate even if disks could be corrupted.
        UNSAFE = 512;
        /// Move the definition of a domain that does not run.
        OFFLINE = 1024;
        /// Fail if an I/O error occurs during the migration.
        ABORT_ON_ERROR = 4096;
        /// Slow the guest down until its memory can be copied.
        AUTO_CONVERGE = 8192;
    }
}
