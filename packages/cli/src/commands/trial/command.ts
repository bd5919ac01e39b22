/** `breakfall trial`: flags, help and examples. */
import { command } from '../../command-line/command.ts'
import { collectHold, milliseconds, wholeNumber } from '../../command-line/flags.ts'
import type { TrialOptions } from './trial.ts'

const TRIAL_HELP = `
{url} in an argument becomes the base URL with /v1, {origin} the one without. OPENAI_BASE_URL, ANTHROPIC_BASE_URL and
GOOGLE_GEMINI_BASE_URL are set, with keys that mean nothing. The command runs in an empty folder and has to exit on its own.

Exit codes:
  0 finished, and --require holds   1 --require does not hold   2 usage, or the command fails without faults   130 cancelled
`

export const TRIAL = command<TrialOptions>({
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
      .option('--hold <what>', 'the same, and what that gateway holds back (repeatable: one column each)', collectHold)
      .option('--require <exact=percent>', 'exit 1 unless this share of the runs is exact')
      .option('--timeout-ms <ms>', 'how long a run may take before it counts as a hang', milliseconds, 120_000),
  run: async (...given) => (await import('./trial.ts')).trialCommand(...given),
})
