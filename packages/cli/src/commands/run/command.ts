/** `breakfall run`: flags, help and examples. */
import { Option } from 'commander'
import { NETWORK_PRESETS } from '@breakfall/wire'
import { command, EXIT_CODES_HELP } from '../../command-line/command.ts'
import {
  addModelFlags,
  addPolicyFlags,
  collect,
  HOMES,
  isolationFlag,
  milliseconds,
  wholeNumber,
} from '../../command-line/flags.ts'
import type { RunOptions } from './options.ts'

/** Repeats the runner's defaults, because `--help` must not load the runner. `help.test.ts` compares them. */
const BOX_HELP = `
Default limits of a box, which [limits] in the config changes: memoryMb 1024, pids 256.
`

export const RUN = command<RunOptions>({
  usage: 'run [prompt...]',
  about: 'run one turn in the current folder and follow it to its end',
  examples: [
    'breakfall run "make the failing test pass"',
    'breakfall run --model qwen3-coder --base-url http://127.0.0.1:8080/v1 "add a test"',
    "breakfall run --continue                  continue this folder's parked turn",
    'breakfall run --continue "now the docs"   the next prompt in the same session',
    'breakfall run --detach "a long task"      start it, and follow it later: breakfall attach',
    'breakfall run - < task.md                 the prompt from a file or a pipe',
    'breakfall run --rehearsal --faults "seed=7,rate=0.3"',
    'breakfall run --json "…" | tail -1        the result, for a program',
  ],
  moreHelp: BOX_HELP + EXIT_CODES_HELP,
  resultFields: { turnId: null, text: '', fault: null, faultsSurvived: 0 },
  flags: (run) =>
    addPolicyFlags(
      addModelFlags(run)
        .option('--continue', "continue this folder's last session, and its parked turn")
        .option('--session <id>', 'continue this session')
        .addOption(
          new Option('--network <network>', "the box's network, or names: npm,example.org (default: none)")
            .choices(['none', 'host', ...NETWORK_PRESETS])
            .argParser(String),
        )
        .addOption(isolationFlag('process: run commands without a sandbox (default: bwrap)'))
        .option('--env <name=value>', 'an environment variable for the box (repeatable)', collect)
        .option(
          '--mount <dir>',
          'a folder that the box also sees, read-only; DIR:rw makes it writable (repeatable)',
          collect,
        )
        .addOption(
          new Option('--home <home>', 'private: hide your home folder and its toolchains (default: real)').choices(
            HOMES,
          ),
        )
        .option('--memory-mb <number>', "the box's memory in MiB (default: [limits] memoryMb, or 1024)", wholeNumber)
        .option(
          '--system-prompt <text>',
          "replace the agent's system prompt; your box and AGENTS.md are still described",
        )
        .option(
          '--share',
          'work even if another session is working in this folder (default: [run] sameFolder, or wait)',
        )
        .option('--detach', 'only start the turn; it continues in the background, and "attach" follows it')
        .option('--rehearsal', 'use the scripted model on a sample task, with injected faults')
        .option('--faults <plan>', 'the faults that a rehearsal injects: none, or a plan as for "breakfall chaos"')
        .option(
          '--park-wait-ms <ms>',
          'how long to wait for a parked turn (default: 60000, or until it resumes if that is within two minutes)',
          milliseconds,
        ),
    ),
  run: async (...given) => (await import('./run.ts')).runCommand(...given),
})
