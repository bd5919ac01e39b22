/**
 * The tree of commands, with their flags. A command loads its code when it runs, so `--help` starts fast. This is the only
 * place where the packages are put together.
 */
import { Argument, Command, Option } from 'commander'
import { EXIT_CODES } from '@breakfall/faults'
import { HOLDS, PROFILE_NAMES } from '@breakfall/model/names'
import { NETWORK_PRESETS } from '@breakfall/wire'
import type { ChaosOptions } from '../commands/chaos.ts'
import type { DemoOptions } from '../commands/demo.ts'
import type { DoctorOptions } from '../commands/doctor.ts'
import type { GatewayOptions } from '../commands/gateway.ts'
import type { RunnerOptions } from '../commands/runner.ts'
import type { OpenOptions } from '../commands/open.ts'
import type { TrialOptions } from '../commands/trial.ts'
import type { UpOptions } from '../commands/up.ts'
import type { Context } from '../context.ts'
import { version } from '../process/version.ts'
import type { RunOptions } from '../run/options.ts'
import { addMcpCommands } from './mcp-commands.ts'
import { addSessionCommands } from './session-commands.ts'
import { addConfigCommands } from './config-commands.ts'
import { completionScript, type Shell, SHELLS } from './completion.ts'
import { type CommonOptions, contextFor, printText, resultFieldsOf } from './context.ts'
import { addModelFlags, addPolicyFlags, collect, collectHold, milliseconds, portNumber, wholeNumber } from './flags.ts'
import { addFleetCommands, addRunnerFlags, addStoreFlags } from './fleet-commands.ts'
import { helpOf, PROGRAM_HELP } from './help.ts'
import { grouped, HELP_STYLE } from './help-groups.ts'

/** `done` gets the exit code. */
export function buildProgram(done: (exitCode: number) => void): Command {
  const program = new Command('breakfall')
  program
    .description('The reliability layer for AI agents.')
    .version(version)
    .exitOverride()
    .configureHelp(HELP_STYLE)
    .configureOutput({ outputError: () => undefined }) // the caller reports it, as every other failure
    .addHelpText('after', PROGRAM_HELP)

  type Action<O> = (context: Context, options: O, args: readonly string[]) => Promise<number | void>
  const command = <O extends object = object>(spec: string, about: string, act: Action<O>): Command => {
    const [name = ''] = spec.split(' ')
    const made = program
      .command(spec)
      .description(about)
      .option('--json', 'machine-readable lines on stdout')
      .addHelpText('after', helpOf(name))
    if (!STATELESS.has(name))
      made.option(
        '--state-dir <dir>',
        `where ${name === 'runner' ? 'its boxes and its token' : 'sessions and journals'} are kept`,
      )
    made.action(async () => {
      const options = made.opts<O & CommonOptions>()
      const context = contextFor(options, resultFieldsOf(name), name !== 'doctor')
      done((await act(context, options, made.args)) ?? EXIT_CODES.finished)
      context.out.end()
    })
    return made
  }

  addPolicyFlags(
    addModelFlags(
      command<RunOptions>(
        'run [prompt...]',
        'run one turn in the current folder and follow it to its end',
        async (...given) => {
          const { runCommand } = await import('../commands/run.ts')
          return runCommand(...given)
        },
      ),
    )
      .option('--continue', "continue this folder's last session, and its parked turn")
      .option('--session <id>', 'continue this session')
      .addOption(
        new Option('--network <network>', "the box's network, or names: npm,example.org (default: none)")
          .choices(['none', 'host', ...NETWORK_PRESETS])
          .argParser(String),
      )
      .addOption(
        new Option('--isolation <level>', 'process: run commands without a sandbox (default: bwrap)').choices(
          ISOLATION,
        ),
      )
      .option('--env <name=value>', 'an environment variable for the box (repeatable)', collect)
      .option(
        '--mount <dir>',
        'a folder that the box also sees, read-only; DIR:rw makes it writable (repeatable)',
        collect,
      )
      .addOption(
        new Option('--home <home>', 'private: hide your home folder and its toolchains (default: real)').choices(HOMES),
      )
      .option('--memory-mb <number>', "the box's memory in MiB (default: [limits] memoryMb, or 1024)", wholeNumber)
      .option('--system-prompt <text>', "replace the agent's system prompt; your box and AGENTS.md are still described")
      .option('--share', 'work even if another session is working in this folder (default: [run] sameFolder, or wait)')
      .option('--rehearsal', 'use the scripted model on a sample task, with injected faults')
      .option('--faults <plan>', 'the faults that a rehearsal injects: none, or a plan as for "breakfall chaos"')
      .option(
        '--park-wait-ms <ms>',
        'how long to wait for a parked turn (default: 60000, or until it resumes if that is within two minutes)',
        milliseconds,
      ),
  )

  addPolicyFlags(
    addStoreFlags(
      addModelFlags(
        command<UpOptions>(
          'up',
          'run the daemon, and a runner unless another one is configured',
          async (context, options) => {
            const { up } = await import('../commands/up.ts')
            return up(context, options)
          },
        ),
      ),
    )
      .option('--port <port>', 'the port; 0 for a free one (default: that of the last start)', portNumber)
      .option('--host <address>', 'the address to bind', '127.0.0.1')
      .option('--allow-host <name>', 'a host name that requests may use, such as that of a proxy (repeatable)', collect)
      .option('--runner <url>', 'use this runner instead of one on this machine')
      .option('--runner-token-file <file>', "that runner's token")
      .option('--allow-workspace <dir>', 'a folder that boxes may use as workspace (repeatable)', collect)
      .addOption(new Option('--allow-isolation <level>', 'allow commands without a sandbox').choices(['process']))
      .addOption(
        new Option('--resume <which>', 'which unfinished turns to continue at the start')
          .choices(['interrupted', 'all', 'none'])
          .default('interrupted'),
      )
      .option('--gateway', 'also run a gateway to the configured model server; the console shows its streams')
      .option('--open', 'open the console in your browser, or print its address')
      .option('--quiet', 'log only parked turns and problems')
      .addOption(new Option('--demo', 'take faults from the process that started it').hideHelp())
      .addOption(new Option('--until-input-ends', 'end when standard input closes').hideHelp())
      .addOption(new Option('--until-idle', 'end when standard input closes and the work is done').hideHelp()),
  )

  command<OpenOptions>('open', "open the running daemon's console in your browser", async (context, options) => {
    const { openCommand } = await import('../commands/open.ts')
    await openCommand(context, options)
  }).option('--print', 'only print the address; it is valid once, for two minutes')

  command<DemoOptions>(
    'demo',
    'break things and watch them survive: the console, a scripted model, no key',
    async (context, options) => {
      const { demoCommand } = await import('../commands/demo.ts')
      return demoCommand(context, options)
    },
  )
    .option('--port <port>', 'the port of the console (default: a free one)', portNumber)
    .option('--print', 'only print the address of the console')
    .option('--plan <plan>', 'faults from the start, as for "breakfall chaos" (default: none)')
    .addOption(
      new Option('--isolation <level>', 'process: run commands without a sandbox (default: bwrap)').choices(ISOLATION),
    )

  addRunnerFlags(
    command<RunnerOptions>('runner', 'run a runner: boxes and execs over HTTP', async (context, options) => {
      const { runnerCommand } = await import('../commands/runner.ts')
      return runnerCommand(context, options)
    }),
  )

  addPolicyFlags(
    command<GatewayOptions>(
      'gateway',
      "a proxy that makes any agent's model streams survive",
      async (context, options) => {
        const { gatewayCommand } = await import('../commands/gateway.ts')
        return gatewayCommand(context, options)
      },
    )
      .option('--upstream <url>', 'the model server (repeatable: the next ones are fallbacks)', collect)
      .option('--port <port>', 'the port (default: a free one)', portNumber)
      .option('--host <address>', 'the address to bind', '127.0.0.1')
      .addOption(new Option('--hold <what>', 'what to hold back until it is complete (default: auto)').choices(HOLDS))
      .addOption(new Option('--profile <profile>', 'what the upstream supports').choices(PROFILE_NAMES))
      .option(
        '--token-file <file>',
        'require this token in x-breakfall-token; needed unless it binds loopback; created if missing',
      )
      .option('--allow-host <name>', 'a host name that requests may use (repeatable)', collect)
      .option('--watch', 'show live streams, faults and recoveries'),
    'request',
  )

  addSessionCommands(command)

  command<ChaosOptions>(
    'chaos',
    'a fault proxy for any HTTP service: prove that your agent survives',
    async (context, options) => {
      const { chaosCommand } = await import('../commands/chaos.ts')
      return chaosCommand(context, options)
    },
  )
    .option('--upstream <url>', 'the service behind the proxy')
    .option('--rehearsal', 'put a scripted model behind the proxy: rehearsal/fix, rehearsal/steps-N, rehearsal/echo')
    .option('--plan <plan>', 'which faults: "seed=7,rate=0.2,faults=reset+stall", or a JSON file')
    .option('--port <port>', 'the port; 0 for a free one', portNumber, 0)
    .option('--list', 'list the faults that a plan can name')

  command<TrialOptions>(
    'trial <command...>',
    'run your agent once per fault against a scripted model, and score it',
    async (...given) => {
      const { trialCommand } = await import('../commands/trial.ts')
      return trialCommand(...given)
    },
  )
    .option('--faults <list>', 'which faults, separated by commas (default: eight common ones)')
    .option('--seed <number>', 'repeat a trial', wholeNumber)
    .option('--through-gateway', 'add a second column: the same agent behind the gateway')
    .option('--hold <what>', 'the same, and what that gateway holds back (repeatable: one column each)', collectHold)
    .option('--require <exact=percent>', 'exit 1 unless this share of the runs is exact')
    .option('--timeout-ms <ms>', 'how long a run may take before it counts as a hang', milliseconds, 120_000)

  command<DoctorOptions>('doctor', 'check this machine, and say how to fix each problem', async (context, options) => {
    const { doctor } = await import('../commands/doctor.ts')
    return doctor(context, options)
  }).option('--start-model', 'also start each model server that Breakfall serves once, and say how long it loads')

  command(
    'login <provider>',
    "store a provider's key, from a prompt or standard input",
    async (context, _options, [name = '']) => {
      const { loginCommand } = await import('../commands/login.ts')
      await loginCommand(context, name)
    },
  )
  command('logout <provider>', "remove a provider's stored key", async (context, _options, [name = '']) => {
    const { logoutCommand } = await import('../commands/login.ts')
    logoutCommand(context, name)
  })
  addFleetCommands(command)
  addConfigCommands(program, done)
  addMcpCommands(program, done)
  const completion = program
    .command('completion')
    .description('print a completion script for your shell')
    .addArgument(new Argument('<shell>', 'your shell').choices(SHELLS))
    .option('--json', 'machine-readable lines on stdout')
    .addHelpText('after', helpOf('completion'))
    .action((shell: Shell) => printText(completionScript(shell, program), completion.opts<CommonOptions>()))
  return grouped(program)
}

// ---- details ----

const ISOLATION = ['bwrap', 'process'] as const
const HOMES = ['real', 'private'] as const

/** These commands keep no state. */
const STATELESS: ReadonlySet<string> = new Set(['gateway', 'chaos', 'trial', 'demo', 'login', 'logout'])
