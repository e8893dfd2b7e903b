//! Help topics: texts that concern many commands, printed by `forewarn help TOPIC`.

/// The end of `forewarn --help`.
pub const LIST: &str = "Help topics:
  connection   Server address, token and output format
  exit-codes   Exit codes of all commands

Run `forewarn help COMMAND` or `forewarn help TOPIC` for more information.";

/// The text of a topic.
pub fn find_topic(name: &str) -> Option<&'static str> {
    match name {
        "connection" => Some(CONNECTION),
        "exit-codes" => Some(EXIT_CODES),
        _ => None,
    }
}

const CONNECTION: &str = "Connection options

Commands that talk to a server accept these options, before or after the command:

      --server <URL>     Address of the server's management API, or of several servers
                         of a cluster, separated by commas
                         [env: FOREWARN_SERVER]
                         [default: the current context, or http://127.0.0.1:8170]
      --data <DIR>       Data directory of the server, from which the token is read
                         [env: FOREWARN_DATA] [default: $XDG_DATA_HOME/forewarn or ~/.local/share/forewarn]
      --token <TOKEN>    Token to use instead of the one in the data directory
                         [env: FOREWARN_TOKEN]
  -o, --output <FORMAT>  Output format [default: table]
                           table  aligned columns or text, colored on a terminal unless NO_COLOR is set
                           json   the JSON of the management API; lists are arrays
                           yaml   the same values as YAML
                           tsv    the columns of the table, separated by tabs, without a header

Examples:
  forewarn login https://build:8171
  forewarn --server https://build:8171 -o json vm list
  FOREWARN_DATA=/var/lib/forewarn forewarn vm list

`forewarn login` keeps the address, the token and the certificate authority of a server as a context. With --data,
commands use the server on this computer. A token is sent only over https or to this computer.

A server started with --no-auth needs no token. Times are in UTC.";

pub const EXIT_CODES: &str = "Exit codes:
    0  success
    1  the request was refused or failed
    2  invalid arguments or configuration; nothing was done
    3  the server is unreachable
    4  the operation, scenario or check failed, or the operation was canceled
    5  timed out waiting (events wait)
    6  the awaited status can no longer be reached (events wait)
  130  interrupted by Ctrl-C; a started operation continues

`forewarn run` exits with the exit code of its program, or with:
    2  invalid arguments
  125  the program was not started: no namespace, server or machine
  126  the program cannot be executed
  127  the program was not found";
