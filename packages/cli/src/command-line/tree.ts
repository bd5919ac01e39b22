/** The tree of commands. This is the only place where the packages are put together. */
import { type Argument, Command } from 'commander'
import { version } from '../process/version.ts'
import { addGroups, type CommandGroup, nameOf } from './command.ts'
import { KEEP_IT_RUNNING } from './groups/keep-it-running.ts'
import { OTHER_AGENTS } from './groups/other-agents.ts'
import { RUN_A_FLEET } from './groups/run-a-fleet.ts'
import { RUN_AN_AGENT } from './groups/run-an-agent.ts'
import { SEE_WHAT_HAPPENED } from './groups/see-what-happened.ts'
import { SET_IT_UP } from './groups/set-it-up.ts'
import { EXIT_CODES_HELP } from './help.ts'

/** In the order of `breakfall --help`. */
const GROUPS: readonly CommandGroup[] = [
  RUN_AN_AGENT,
  KEEP_IT_RUNNING,
  SEE_WHAT_HAPPENED,
  OTHER_AGENTS,
  SET_IT_UP,
  RUN_A_FLEET,
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
  return program.commandsGroup(SET_IT_UP.heading).helpCommand('help [command]', 'display help for command')
}

/** Fields that every result of this command has, even if it failed before it started. */
export function resultFieldsOf(name: string | undefined): object {
  const found = GROUPS.flatMap(({ commands }) => commands).find((one) => nameOf(one) === name)
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
