/** How `breakfall --help` groups the commands. */
import { type Argument, type Command, Help, type HelpConfiguration } from 'commander'

/** Groups are shown in the order of their first command in the tree, and commands in the order of their group. */
export const COMMAND_GROUPS: Readonly<Record<string, readonly string[]>> = {
  'Run an agent:': ['run', 'undo', 'diff', 'approve', 'resume', 'cancel'],
  'Keep it running:': ['up', 'open', 'runner', 'service', 'export', 'rm', 'prune', 'uninstall'],
  'See what happened:': ['sessions', 'show', 'tail', 'output', 'processes', 'explain', 'doctor', 'demo'],
  'Protect and test other agents:': ['gateway', 'chaos', 'trial'],
  'Set it up:': ['config', 'login', 'logout', 'mcp', 'completion'],
  'Run a fleet:': ['fleet', 'daemons', 'runners', 'store'],
}

/** To be called when all commands are there. */
export function grouped(program: Command): Command {
  for (const { heading, name } of PLACES) program.commands.find((child) => child.name() === name)?.helpGroup(heading)
  return program.commandsGroup('Set it up:').helpCommand('help [command]', 'display help for command')
}

/** A command with its arguments only: nearly all have options. */
export const HELP_STYLE: HelpConfiguration = {
  subcommandTerm: (child) => [child.name(), ...child.registeredArguments.map(argumentTerm)].join(' '),
  visibleCommands: (parent) => {
    const all = new Help().visibleCommands(parent)
    return parent.parent === null ? all.toSorted((a, b) => placeOf(a) - placeOf(b)) : all
  },
}

// ---- details ----

const PLACES = Object.entries(COMMAND_GROUPS).flatMap(([heading, names]) => names.map((name) => ({ heading, name })))

/** `help` comes last. */
function placeOf(child: Command): number {
  const place = PLACES.findIndex(({ name }) => name === child.name())
  return place === -1 ? PLACES.length : place
}

function argumentTerm(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}
