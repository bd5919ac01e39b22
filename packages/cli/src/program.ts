/**
 * The tree of commands. Each command loads what it needs when it runs, so that `--help` and `explain` start at once.
 * This is the only place where the parts are wired together.
 */
import { Argument, Command, CommanderError, Option } from 'commander'
import { type Boundary, BOUNDARIES, EXIT_CODES, exitCodeOf, Fault, faultFrom, isFault } from '@breakfall/faults'
import type * as Sessions from './commands/sessions.ts'
import { completionScript, type Shell, SHELLS } from './command-line/completion.ts'
import { loadConfig, type LoadedConfig } from './config/load.ts'
import type { DaemonClient } from './daemon/client.ts'
import {
  addModelFlags,
  addPolicyFlags,
  collect,
  commonFlagsLast,
  configFlags,
  milliseconds,
  portNumber,
} from './command-line/flags.ts'
import { helpOf, PROGRAM_HELP } from './command-line/help.ts'
import { leave } from './process/interrupt.ts'
import type { Viewer } from './sessions/offline.ts'
import { Output } from './render/output.ts'
import { defaultStateDir, userConfigFile } from './config/paths.ts'
import { printable } from './render/printable.ts'
import { WITHOUT_SANDBOX } from './render/summary.ts'
import { onSignal } from './process/signals.ts'
import { version } from './process/version.ts'
import { currentFolderIfAny } from './workspace/work-folder.ts'

type Options = Readonly<Record<string, unknown>>

/** What every command gets. */
export type Context = {
  readonly out: Output
  readonly options: Options
  readonly loaded: LoadedConfig
  readonly stateDir: string
  readonly env: Readonly<Record<string, string | undefined>>
}

export async function main(argv: readonly string[]): Promise<number> {
  let exitCode: number = EXIT_CODES.finished
  const program = buildProgram((code) => {
    exitCode = code
  })
  const words = commonFlagsLast(argv.slice(2))
  const out = new Output({ json: beforeDashes(words).includes('--json'), about: aboutOf(words[0]) })
  onSignal((signal) => leave(signal, out))
  try {
    await program.parseAsync(hasKnownCommand(program, words) ? words : words.filter((word) => !isHelp(word)), {
      from: 'user',
    })
    return exitCode
  } catch (error) {
    if (error instanceof CommanderError) return usageError(error, out)
    return tell(isFault(error) ? error : faultFrom(error), out)
  }
}

export function buildProgram(done: (exitCode: number) => void): Command {
  const program = new Command('breakfall')
  program
    .description('An agent runtime that does not drop runs.')
    .version(version)
    .exitOverride()
    .configureOutput({ writeErr: (text) => process.stderr.write(printable(text)) })
    .showHelpAfterError('(see --help)')
    .addHelpText('after', PROGRAM_HELP)

  const command = (
    spec: string,
    about: string,
    act: (context: Context, ...args: string[]) => Promise<number | void> | number | void,
  ): Command => {
    const [name = ''] = spec.split(' ')
    const made = program
      .command(spec)
      .description(about)
      .option('--json', 'machine-readable lines on stdout')
      .addHelpText('after', helpOf(name))
    if (!STATELESS.has(name)) made.option('--state-dir <dir>', 'where sessions and journals are kept')
    made.action(async (...given: unknown[]) => {
      const options = made.opts()
      const args = given.slice(0, -2) as string[]
      const context = contextOf(options, aboutOf(name))
      done((await act(context, ...args)) ?? EXIT_CODES.finished)
      context.out.end()
    })
    return made
  }

  addPolicyFlags(
    addModelFlags(
      command('run [prompt...]', 'run one turn in the current folder, live, to its end', async (context, prompt) => {
        const { runCommand } = await import('./commands/run.ts')
        return runCommand(context, prompt as unknown as readonly string[])
      }),
    )
      .option('--continue', "go on in this folder's last session, and with its parked turn")
      .option('--session <id>', 'go on in this session')
      .addOption(new Option('--network <network>', "the box's network (default: none)").choices(['none', 'host']))
      .addOption(
        new Option('--isolation <level>', 'process: run commands without a sandbox (default: bwrap)').choices([
          'bwrap',
          'process',
        ]),
      )
      .option('--rehearsal', 'use the scripted model on a small task, with faults injected')
      .option('--faults <plan>', 'which faults a rehearsal injects: none, or a plan as for "breakfall chaos"')
      .option('--park-wait-ms <ms>', 'how long to wait on a parked turn', milliseconds, 60_000),
  )

  addPolicyFlags(
    addModelFlags(
      command('up', 'run the daemon, with its runner', async (context) => {
        const { up } = await import('./commands/up.ts')
        return up(context)
      }),
    )
      .option('--port <port>', 'the port, 0 for a free one', portNumber)
      .option('--host <address>', 'the address to bind', '127.0.0.1')
      .option('--runner <url>', 'use this runner instead of one on this machine')
      .option('--runner-token-file <file>', "that runner's token")
      .option('--allow-workspace <dir>', 'a folder that boxes may use as workspace (repeatable)', collect)
      .addOption(new Option('--allow-isolation <level>', 'allow commands without a sandbox').choices(['process']))
      .option('--quiet', 'log only what needs somebody: turns that are parked, and troubles')
      .addOption(new Option('--until-idle', 'end when standard input closes and the work is done').hideHelp()),
  )

  command('runner', 'run a runner: boxes and execs over HTTP', async (context) => {
    const { runnerCommand } = await import('./commands/runner.ts')
    return runnerCommand(context)
  })
    .option('--port <port>', 'the port, 0 for a free one', portNumber, 0)
    .option('--host <address>', 'the address to bind', '127.0.0.1')
    .option('--token-file <file>', 'where the tokens are; made where missing')
    .option('--allow-workspace <dir>', 'a folder that boxes may use as workspace (repeatable)', collect)
    .addOption(new Option('--allow-isolation <level>', 'allow commands without a sandbox').choices(['process']))
    .option('--allow-host <name>', 'a host name under which it may be called (repeatable)', collect)
    .addOption(
      new Option('--isolation <level>', 'do without the sandbox even where it works').choices(['bwrap', 'process']),
    )
    .option('--idle-exit-ms <ms>', 'end after so long without calls and execs', milliseconds)

  addPolicyFlags(
    command('gateway', "put before a model server: any agent's streams survive", async (context) => {
      const { gatewayCommand } = await import('./commands/gateway.ts')
      return gatewayCommand(context)
    })
      .option('--upstream <url>', 'the model server (repeatable: the next ones are fallbacks)', collect)
      .option('--port <port>', 'the port, 0 for a free one', portNumber)
      .option('--host <address>', 'the address to bind', '127.0.0.1')
      .addOption(
        new Option('--hold <what>', 'what is held back until it is whole (default: tools)').choices([
          'tools',
          'answer',
          'none',
        ]),
      )
      .option('--profile <profile>', 'what the upstream can do')
      .option(
        '--token-file <file>',
        'wants this token in x-breakfall-token; needed for any address but loopback; made where missing',
      )
      .option('--allow-host <name>', 'a host name under which it may be called (repeatable)', collect)
      .option('--watch', 'show live streams, faults and recoveries'),
    'request',
  )

  command('sessions', 'list the sessions, with a daemon or without', async (context) => {
    const [{ listSessions }, viewer] = await withViewer(context)
    await listSessions(viewer, context.out)
  })
  command('show <id>', 'show a session or a turn, with a daemon or without', async (context, id) => {
    const [{ show }, viewer] = await withViewer(context)
    await show(viewer, id, context.out)
  })
  command('cancel <id>', 'cancel a turn, in whatever phase it is (its id, or its session)', async (context, turn) => {
    const { cancelCommand } = await import('./commands/cancel.ts')
    await cancelCommand(context, turn, context.options['reason'] as string | undefined)
  }).option('--reason <text>', 'why, for the record')
  command('resume <id>', 'wake a parked turn now (its id, or its session)', async (context, turn) => {
    const without = 'Or take it up in its folder: breakfall run --continue'
    const [{ resume }, client] = await withDaemon(context, without)
    await resume(client, turn, context.out)
  })
  command('tail <session>', "show a session's events, then follow", async (context, session) => {
    const { after, follow } = context.options as { after?: string; follow: boolean }
    const [{ tail }, client] = follow
      ? await withDaemon(context, '--no-follow shows what there is', true)
      : await withViewer(context)
    const stop = new AbortController()
    using _ = onSignal(() => stop.abort())
    await tail(client, session, { ...(after === undefined ? {} : { after }), follow, signal: stop.signal }, context.out)
  })
    .option('--after <cursor>', 'only what came after this event')
    .option('--no-follow', 'end with the last event there is')

  command(
    'explain [input]',
    'say what an error, a log, an exit code, a category or a turn means',
    async (context, input) => {
      const { explainCommand } = await import('./commands/explain.ts')
      let viewer: Promise<Viewer> | undefined
      await explainCommand(
        {
          given: input,
          boundary: context.options['boundary'] as Boundary,
          viewer: () => (viewer ??= withViewer(context).then(([, found]) => found)),
        },
        context.out,
      )
    },
  ).addOption(new Option('--boundary <boundary>', 'where it happened').choices([...BOUNDARIES]).default('model'))

  command('chaos', 'a fault proxy before any HTTP service: prove that your agent survives', async (context) => {
    const { chaosCommand } = await import('./commands/chaos.ts')
    return chaosCommand(context)
  })
    .option('--upstream <url>', 'the service to put it before')
    .option(
      '--rehearsal',
      'put it before a scripted model of its own: rehearsal/fix, rehearsal/steps-N, rehearsal/echo',
    )
    .option('--plan <plan>', 'which faults: "seed=7,rate=0.2,faults=reset+stall", or a JSON file')
    .option('--port <port>', 'the port, 0 for a free one', portNumber, 0)
    .option('--list', 'list the faults that a plan can name')

  command('doctor', 'check this machine, with a fix for each trouble', async (context) => {
    const { doctor } = await import('./commands/doctor.ts')
    return doctor(context.loaded, context.stateDir, context.env, context.out)
  })

  addConfigCommands(program, done)
  const completing = program
    .command('completion')
    .description('print a completion script for your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .option('--json', 'machine-readable lines on stdout')
    .addHelpText('after', helpOf('completion'))
    .action((shell: Shell) => printText(completionScript(shell, program), completing.opts()))
  return program
}

// ---- details, in the order they are used above ----

/** Nothing of theirs is kept. */
const STATELESS: ReadonlySet<string> = new Set(['gateway', 'chaos'])

/** The result of a run has the same fields, also where it failed before there was a turn. */
const aboutOf = (command: string | undefined): object =>
  command === 'run' ? { turnId: null, text: '', fault: null, faultsSurvived: 0 } : {}

const isHelp = (word: string): boolean => word === '--help' || word === '-h'

/** Help about a command that does not exist would hide the mistake: without the flag, it is named. */
function hasKnownCommand(program: Command, words: readonly string[]): boolean {
  let command: Command | undefined = program
  for (const word of words.filter((given) => !given.startsWith('-'))) {
    if (word === 'help' || command.commands.length === 0) return true
    command = command.commands.find((child) => child.name() === word)
    if (command === undefined) return false
  }
  return true
}

/** What follows `--` are words, whatever they look like. */
const beforeDashes = (words: readonly string[]): readonly string[] =>
  words.includes('--') ? words.slice(0, words.indexOf('--')) : words

/** Commander has told people already; programs get their line. */
function usageError(error: CommanderError, out: Output): number {
  if (error.exitCode === 0) return EXIT_CODES.finished
  const fault = new Fault('invalid_request', { error: error.message.replace(/^error: /, '').split('\n')[0] })
  if (out.json) out.result({ outcome: 'failed', fault: fault.report })
  return EXIT_CODES.usage
}

function addConfigCommands(program: Command, done: (exitCode: number) => void): void {
  const config = program.command('config').description('show the configuration')
  const showing = config
    .command('show')
    .description('what is set')
    .addHelpText('after', helpOf('config show'))
    .option('--origin', 'and where it was set')
    .option('--json', 'machine-readable lines on stdout')
    .action(async () => {
      const { showConfig } = await import('./commands/config.ts')
      const { chooseModel, listModels } = await import('./model/choose.ts')
      const { origin, json } = showing.opts<{ origin?: boolean; json?: boolean }>()
      const context = contextOf({ json })
      const choice = await chooseModel(context.loaded, context.env, listModels)
      showConfig(context.loaded, choice, { origin: origin === true }, context.out)
      done(EXIT_CODES.finished)
    })
  const example = config
    .command('example')
    .description('a commented config file to start from')
    .option('--write', 'write it to where it is read from, unless there is one')
    .option('--json', 'machine-readable lines on stdout')
    .addHelpText('after', helpOf('config example'))
    .action(async () => {
      const { EXAMPLE_CONFIG, writeExample } = await import('./commands/config.ts')
      const file = userConfigFile(process.env)
      if (example.opts<{ write?: boolean }>().write !== true) return printText(EXAMPLE_CONFIG, example.opts())
      writeExample(file)
      printText(`${file}\n`, example.opts())
    })
  const printing = program
    .command('service')
    .description('run as a service')
    .command('print')
    .description('print a systemd unit for the daemon')
    .option('--json', 'machine-readable lines on stdout')
    .option('--state-dir <dir>', 'where the daemon is to keep sessions and journals')
    .option('--port <port>', 'the port that it is to take', portNumber)
    .addHelpText('after', helpOf('service print'))
    .action(async () => {
      const { systemdUnit } = await import('./commands/service.ts')
      const { mainFile } = await import('./process/self.ts')
      const { daemon } = contextOf(printing.opts()).loaded.config
      const unit = { node: process.execPath, main: mainFile, stateDir: daemon?.stateDir, port: daemon?.port }
      printText(systemdUnit(unit), printing.opts())
    })
}

/** A text to be kept in a file; for programs inside a result line. */
function printText(text: string, options: Options): void {
  const out = new Output({ json: options['json'] === true })
  if (out.json) out.result({ text })
  else out.write(text)
}

function contextOf(options: Options, about = {}): Context {
  const out = new Output({ json: options['json'] === true, about })
  const loaded = loadConfig({ env: process.env, folder: currentFolderIfAny(), flags: configFlags(options) })
  for (const warning of loaded.warnings) out.say(out.styleErr('yellow', `warning: ${warning}`))
  return {
    out,
    options,
    loaded,
    stateDir: loaded.config.daemon?.stateDir ?? defaultStateDir(process.env),
    env: process.env,
  }
}

async function withDaemon(
  { stateDir, env }: Context,
  without?: string,
  isFollowed = false,
): Promise<[typeof Sessions, DaemonClient]> {
  const [sessions, daemon] = await Promise.all([import('./commands/sessions.ts'), import('./daemon/find.ts')])
  const client = await daemon.needDaemon(stateDir, env, without)
  return [sessions, isFollowed ? daemon.looking(client, stateDir, env) : client]
}

async function withViewer(context: Context): Promise<[typeof Sessions, Viewer]> {
  const [sessions, { findViewer }] = await Promise.all([import('./commands/sessions.ts'), import('./daemon/find.ts')])
  const found = await findViewer(context.stateDir, context.env, context.loaded.config.model?.name ?? '')
  const { out } = context
  if ('isOffline' in found) out.say(out.styleErr('dim', 'no daemon runs here: this is what the journal on disk says'))
  return [sessions, found.viewer]
}

/** One report per failure: the result for programs, on stdout, and a sentence for people, on stderr. */
function tell(fault: Fault, out: Output): number {
  if (out.json) out.result({ outcome: fault.category === 'cancelled' ? 'cancelled' : 'failed', fault: fault.report })
  out.say(`breakfall: ${fault.error}`)
  if (fault.errorRaw !== fault.error) out.say(`  ${fault.category}: ${fault.errorRaw}`)
  if (fault.category === 'isolation_unavailable') out.say(`  ${WITHOUT_SANDBOX}`)
  return exitCodeOf(fault.report)
}
