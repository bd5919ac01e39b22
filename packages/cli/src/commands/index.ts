/** Every command, in groups. A new one is a file or a folder here, and its name in one of the groups. */
import { type Argument, Command } from 'commander'
import { addGroups, type CommandGroup, EXIT_CODES_HELP, commandName } from '../command-line/command.ts'
import { version } from '../process/self.ts'
import { APPROVE } from './approve/command.ts'
import { ATTACH } from './attach/command.ts'
import { RESUME, CANCEL } from './cancel-resume/command.ts'
import { CHAOS } from './chaos/command.ts'
import { COMPLETION } from './completion.ts'
import { CONFIG } from './config/command.ts'
import { DAEMONS } from './daemons.ts'
import { DEMO } from './demo/command.ts'
import { DOCTOR } from './doctor/command.ts'
import { EXPLAIN } from './explain/command.ts'
import { EXPORT } from './export/command.ts'
import { FLEET } from './fleet.ts'
import { GATEWAY } from './gateway/command.ts'
import { LOGIN, LOGOUT } from './login-logout.ts'
import { MCP } from './mcp/command.ts'
import { OPEN } from './open.ts'
import { OUTPUT } from './output/command.ts'
import { PROCESSES } from './processes/command.ts'
import { RM, PRUNE } from './rm-prune/command.ts'
import { RUN } from './run/command.ts'
import { RUNNER } from './runner/command.ts'
import { RUNNERS } from './runners.ts'
import { SERVICE } from './service.ts'
import { SESSIONS } from './sessions/command.ts'
import { SHOW } from './show/command.ts'
import { STORE } from './store/command.ts'
import { TAIL } from './tail/command.ts'
import { TRIAL } from './trial/command.ts'
import { UNDO, DIFF } from './undo-diff/command.ts'
import { UNINSTALL } from './uninstall/command.ts'
import { UP } from './up/command.ts'

/** In the order of `breakfall --help`. */
const GROUPS: readonly CommandGroup[] = [
  { heading: 'Run an agent:', commands: [RUN, ATTACH, UNDO, DIFF, APPROVE, RESUME, CANCEL] },
  { heading: 'Keep it running:', commands: [UP, OPEN, RUNNER, SERVICE, EXPORT, RM, PRUNE, UNINSTALL] },
  { heading: 'See what happened:', commands: [SESSIONS, SHOW, TAIL, OUTPUT, PROCESSES, EXPLAIN, DOCTOR, DEMO] },
  { heading: 'Protect and test other agents:', commands: [GATEWAY, CHAOS, TRIAL] },
  { heading: 'Set it up:', commands: [CONFIG, LOGIN, LOGOUT, MCP, COMPLETION] },
  { heading: 'Run a fleet:', commands: [FLEET, DAEMONS, RUNNERS, STORE] },
]

/** `done` gets the exit code. */
export function buildProgram(done: (exitCode: number) => void): Command {
  const program = new Command('breakfall')
    .description('The reliability layer for AI agents.')
    .version(version)
    .exitOverride()
    .configureHelp({ subcommandTerm })
    .configureOutput({ outputError: () => undefined }) // the caller reports it, as every other failure
    .addHelpText('after', PROGRAM_HELP)
  addGroups(program, GROUPS, done)
  return program.commandsGroup('Set it up:').helpCommand('help [command]', 'display help for command')
}

/** Fields that every result of this command has, even if it failed before it started. */
export function resultFieldsOf(name: string | undefined): object {
  const found = GROUPS.flatMap(({ commands }) => commands).find((one) => commandName(one) === name)
  return (found !== undefined && 'usage' in found ? found.resultFields : undefined) ?? {}
}

// ---- details ----

const PROGRAM_HELP = `
Examples:
  breakfall run "make the failing test pass"     one turn in this folder, with your model
  breakfall run --rehearsal                      watch faults being survived, without a model
  breakfall run --continue                       continue a parked turn
  breakfall demo                                 break things in your browser, without a model
  breakfall gateway --upstream http://127.0.0.1:8080/v1
  breakfall chaos --upstream http://127.0.0.1:8080 --plan "rate=0.2"
  some-command 2>&1 | breakfall explain -

In a checkout, "npm start -- WORDS" runs "breakfall run WORDS". If WORDS are another command with its arguments and flags, that command runs. A single word that looks like a misspelled command is refused; "npm start -- run WORD" sends it as a prompt.
${EXIT_CODES_HELP}`

/** A command with its arguments only: nearly all have options. */
const subcommandTerm = (child: Command): string =>
  [child.name(), ...child.registeredArguments.map(argumentTerm)].join(' ')

function argumentTerm(argument: Argument): string {
  const name = `${argument.name()}${argument.variadic ? '...' : ''}`
  return argument.required ? `<${name}>` : `[${name}]`
}
