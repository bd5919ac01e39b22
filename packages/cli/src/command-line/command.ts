/** One command in one object: its flags, its help, its examples and what it runs. `groups/` lists them all. */
import { EXIT_CODES } from '@breakfall/faults'
import type { Command } from 'commander'
import { type CommonOptions, type Context, contextFor, printText } from './context.ts'

export type CommandRow = {
  /** Its name and its arguments: `show <id>`. */
  readonly usage: string
  readonly about: string
  /** To copy; what follows three spaces explains. */
  readonly examples: readonly string[]
  /** Below the examples. */
  readonly moreHelp?: string
  readonly args?: Readonly<Record<string, { readonly about: string; readonly choices?: readonly string[] }>>
  /** Those besides `--json` and `--state-dir`. */
  readonly flags?: (command: Command) => Command
  /** What it keeps in the state folder; null: nothing, and it has no `--state-dir`. */
  readonly keeps?: string | null
  /** Fields that its result always has, even if it failed early. */
  readonly resultFields?: object
  /** A mistake in a config file does not end it: it reports the mistake and continues without the files. */
  readonly survivesBadConfig?: true
} & (
  | { readonly run: (context: Context, command: Command) => Promise<number | void> }
  /** Text to save in a file, or with `--json` a field of the result line. */
  | { readonly print: (command: Command) => string | Promise<string> }
)

/** Commands that share their first word: `mcp list`. */
export type CommandFamily = { readonly name: string; readonly about: string; readonly commands: readonly CommandRow[] }

export type CommandGroup = {
  readonly heading: string
  readonly commands: readonly (CommandRow | CommandFamily)[]
}

type Runs<O> = (context: Context, options: O, args: readonly string[]) => Promise<number | void>

/** `O`: the options that its flags set. It loads its code when it runs, so `--help` starts fast. */
export const command = <O extends object>(
  row: Omit<Extract<CommandRow, { readonly run: unknown }>, 'run'> & { readonly run: Runs<O> },
): CommandRow => ({ ...row, run: (context, made) => row.run(context, made.opts<O>(), made.args) })

/** `done` gets the exit code. */
export function addGroups(program: Command, groups: readonly CommandGroup[], done: (exitCode: number) => void): void {
  for (const { heading, commands } of groups) for (const one of commands) add(program, one, done).helpGroup(heading)
}

export const commandName = (one: CommandRow | CommandFamily): string =>
  'usage' in one ? (one.usage.split(' ')[0] ?? '') : one.name

/** The exit codes, for every `--help` that shows them. */
export const EXIT_CODES_HELP = `
Exit codes:
  0 finished   1 failed   2 usage   3 parked or transient: retry later   4 credentials or approval
  7 budget   125 daemon or runner unreachable   130 cancelled
`

// ---- details, in the order they are used above ----

function add(parent: Command, one: CommandRow | CommandFamily, done: (exitCode: number) => void): Command {
  if ('usage' in one) return addRow(parent, one, done)
  const family = parent.command(one.name).description(one.about)
  for (const row of one.commands) addRow(family, row, done)
  return family
}

function addRow(parent: Command, row: CommandRow, done: (exitCode: number) => void): Command {
  const { usage, about, examples, moreHelp = '', args = {}, keeps = 'sessions and journals', flags } = row
  const made = parent.command(usage).description(about)
  made.option('--json', 'machine-readable lines on stdout')
  if (keeps !== null && 'run' in row) made.option('--state-dir <dir>', `where ${keeps} are kept`)
  flags?.(made)
  for (const argument of made.registeredArguments) {
    const described = args[argument.name()]
    argument.description = described?.about ?? ''
    if (described?.choices !== undefined) argument.choices(described.choices)
  }
  made.addHelpText('after', `\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}${moreHelp}`)
  return made.action(async () => {
    const options = made.opts<CommonOptions>()
    if ('print' in row) return printText(await row.print(made), options)
    const context = contextFor(options, row.resultFields, row.survivesBadConfig !== true)
    done((await row.run(context, made)) ?? EXIT_CODES.finished)
    context.out.end()
  })
}
