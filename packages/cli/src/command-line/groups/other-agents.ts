/** What other agents use: `gateway`, `chaos`, `trial`. */
import { Option } from 'commander'
import { HOLDS, PROFILE_NAMES } from '@breakfall/model/names'
import type { ChaosOptions } from '../../commands/chaos.ts'
import type { GatewayOptions } from '../../commands/gateway.ts'
import type { TrialOptions } from '../../commands/trial.ts'
import { command, type CommandGroup } from '../command.ts'
import { addPolicyFlags, collect, collectHold, milliseconds, portNumber, wholeNumber } from '../flags.ts'

const TRIAL_HELP = `
{url} in an argument becomes the base URL with /v1, {origin} the one without. OPENAI_BASE_URL, ANTHROPIC_BASE_URL and
GOOGLE_GEMINI_BASE_URL are set, with keys that mean nothing. The command runs in an empty folder and has to exit on its own.

Exit codes:
  0 finished, and --require holds   1 --require does not hold   2 usage, or the command fails without faults   130 cancelled
`

export const OTHER_AGENTS: CommandGroup = {
  heading: 'Protect and test other agents:',
  commands: [
    command<GatewayOptions>({
      usage: 'gateway',
      about: "a proxy that makes any agent's model streams survive",
      examples: [
        'breakfall gateway --upstream http://127.0.0.1:8080/v1 --port 4000',
        'breakfall gateway --upstream http://127.0.0.1:8080/v1 --hold answer --watch',
      ],
      keeps: null,
      flags: (gateway) =>
        addPolicyFlags(
          gateway
            .option('--upstream <url>', 'the model server (repeatable: the next ones are fallbacks)', collect)
            .option('--port <port>', 'the port (default: a free one)', portNumber)
            .option('--host <address>', 'the address to bind', '127.0.0.1')
            .addOption(
              new Option('--hold <what>', 'what to hold back until it is complete (default: auto)').choices(HOLDS),
            )
            .addOption(new Option('--profile <profile>', 'what the upstream supports').choices(PROFILE_NAMES))
            .option(
              '--token-file <file>',
              'require this token in x-breakfall-token; needed unless it binds loopback; created if missing',
            )
            .option('--allow-host <name>', 'a host name that requests may use (repeatable)', collect)
            .option('--watch', 'show live streams, faults and recoveries'),
          'request',
        ),
      run: async (context, options) => (await import('../../commands/gateway.ts')).gatewayCommand(context, options),
    }),
    command<ChaosOptions>({
      usage: 'chaos',
      about: 'a fault proxy for any HTTP service: prove that your agent survives',
      examples: [
        'breakfall chaos --upstream http://127.0.0.1:8080 --plan "seed=7,rate=0.2,faults=reset+stall:2000"',
        'breakfall chaos --rehearsal --port 8080 --plan "at=2.1:reset"',
        'breakfall chaos --list',
      ],
      keeps: null,
      flags: (chaos) =>
        chaos
          .option('--upstream <url>', 'the service behind the proxy')
          .option(
            '--rehearsal',
            'put a scripted model behind the proxy: rehearsal/fix, rehearsal/steps-N, rehearsal/echo',
          )
          .option('--plan <plan>', 'which faults: "seed=7,rate=0.2,faults=reset+stall", or a JSON file')
          .option('--port <port>', 'the port; 0 for a free one', portNumber, 0)
          .option('--list', 'list the faults that a plan can name'),
      run: async (context, options) => (await import('../../commands/chaos.ts')).chaosCommand(context, options),
    }),
    command<TrialOptions>({
      usage: 'trial <command...>',
      about: 'run your agent once per fault against a scripted model, and score it',
      examples: [
        'breakfall trial -- claude -p "do the task"',
        'breakfall trial --through-gateway -- my-agent --base-url {url} "do the task"',
        'breakfall trial --require exact=100 --json -- ./agent.sh',
      ],
      moreHelp: TRIAL_HELP,
      keeps: null,
      flags: (trial) =>
        trial
          .option('--faults <list>', 'which faults, separated by commas (default: eight common ones)')
          .option('--seed <number>', 'repeat a trial', wholeNumber)
          .option('--through-gateway', 'add a second column: the same agent behind the gateway')
          .option(
            '--hold <what>',
            'the same, and what that gateway holds back (repeatable: one column each)',
            collectHold,
          )
          .option('--require <exact=percent>', 'exit 1 unless this share of the runs is exact')
          .option('--timeout-ms <ms>', 'how long a run may take before it counts as a hang', milliseconds, 120_000),
      run: async (...given) => (await import('../../commands/trial.ts')).trialCommand(...given),
    }),
  ],
}
