/** `breakfall run`, and what steers it: `undo`, `diff`, `approve`, `resume`, `cancel`. */
import { Option } from 'commander'
import { NETWORK_PRESETS } from '@breakfall/wire'
import type { ApproveOptions } from '../../commands/approve.ts'
import type { DiffOptions, UndoOptions } from '../../commands/undo.ts'
import type { RunOptions } from '../../run/options.ts'
import { command, type CommandGroup } from '../command.ts'
import { addModelFlags, addPolicyFlags, collect, HOMES, isolationFlag, milliseconds, wholeNumber } from '../flags.ts'
import { EXIT_CODES_HELP } from '../help.ts'

/** Repeats the runner's defaults, because `--help` must not load the runner. `help.test.ts` compares them. */
const BOX_HELP = `
Default limits of a box, which [limits] in the config changes: memoryMb 1024, pids 256.
`

export const RUN_AN_AGENT: CommandGroup = {
  heading: 'Run an agent:',
  commands: [
    command<RunOptions>({
      usage: 'run [prompt...]',
      about: 'run one turn in the current folder and follow it to its end',
      examples: [
        'breakfall run "make the failing test pass"',
        'breakfall run --model qwen3-coder --base-url http://127.0.0.1:8080/v1 "add a test"',
        "breakfall run --continue                  continue this folder's parked turn",
        'breakfall run --continue "now the docs"   the next prompt in the same session',
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
            .option(
              '--memory-mb <number>',
              "the box's memory in MiB (default: [limits] memoryMb, or 1024)",
              wholeNumber,
            )
            .option(
              '--system-prompt <text>',
              "replace the agent's system prompt; your box and AGENTS.md are still described",
            )
            .option(
              '--share',
              'work even if another session is working in this folder (default: [run] sameFolder, or wait)',
            )
            .option('--rehearsal', 'use the scripted model on a sample task, with injected faults')
            .option('--faults <plan>', 'the faults that a rehearsal injects: none, or a plan as for "breakfall chaos"')
            .option(
              '--park-wait-ms <ms>',
              'how long to wait for a parked turn (default: 60000, or until it resumes if that is within two minutes)',
              milliseconds,
            ),
        ),
      run: async (...given) => (await import('../../commands/run.ts')).runCommand(...given),
    }),
    command<UndoOptions>({
      usage: 'undo [id]',
      about:
        'restore files to before a turn: the last turn in this folder, or one named by session or turn; needs no daemon',
      examples: [
        'breakfall undo --dry-run                  what undo of the last turn in this folder would change',
        'breakfall undo',
        'breakfall undo --redo                     reverse the undo',
        'breakfall undo --path src/app.ts          only this file',
        'breakfall undo 0198c2a4-91e0 --list       the checkpoints of a session',
      ],
      flags: (undo) =>
        undo
          .option('--dry-run', 'only show what it would do')
          .option('--turn <turn>', 'back to before this turn')
          .option('--to <checkpoint>', 'back to this checkpoint')
          .option('--path <path>', 'only this file or folder (repeatable)', collect)
          .option(
            '--force',
            'also overwrite files that you or others have changed since; a safety checkpoint keeps them',
          )
          .option('--redo', 'reverse the last undo')
          .option('--list', 'list the checkpoints'),
      run: async (context, options, [id]) => (await import('../../commands/undo.ts')).undoCommand(context, options, id),
    }),
    command<DiffOptions>({
      usage: 'diff [id]',
      about: 'show what changed since before the last turn, or what one turn changed; needs no daemon',
      examples: ['breakfall diff', 'breakfall diff 0198c2a4-91e0 --stat       a session, or one turn'],
      flags: (diff) =>
        diff
          .option('--turn <turn>', 'what this turn changed')
          .option('--from <checkpoint>', 'since this checkpoint')
          .option('--stat', 'only the names of the files'),
      run: async (context, options, [id]) => (await import('../../commands/undo.ts')).diffCommand(context, options, id),
    }),
    command<ApproveOptions>({
      usage: 'approve [id]',
      about: 'allow or deny the tool call that a turn waits with; without an id, list what waits',
      examples: [
        'breakfall approve                         what waits for you',
        'breakfall approve 0198c2a4-91e0',
        'breakfall approve 0198c2a4-91e0 --deny --reason "use the staging server"',
      ],
      flags: (approve) =>
        approve
          .option('--deny', 'deny it')
          .option('--session', 'allow this tool for the rest of the session')
          .option('--reason <text>', 'why, for the model and the record')
          .option('--show', 'only show the call, to its end'),
      run: async (context, options, [id]) =>
        (await import('../../commands/approve.ts')).approveCommand(context, options, id),
    }),
    command({
      usage: 'resume [id]',
      about:
        "resume a parked turn or retry now, by its id or its session; without an id, this folder's only one, or list what waits",
      examples: ['breakfall resume 0198c2a4-91e0'],
      run: async (context, _options, [id]) => (await import('../../commands/steer.ts')).resumeCommand(context, id),
    }),
    command<{ readonly reason?: string }>({
      usage: 'cancel <id>',
      about: 'cancel a turn, by its id or its session; needs no daemon',
      examples: ['breakfall cancel 0198c2a4-91e0 --reason "wrong branch"'],
      flags: (cancel) => cancel.option('--reason <text>', 'why, for the record'),
      run: async (context, { reason }, [id = '']) =>
        (await import('../../commands/steer.ts')).cancelCommand(context, id, reason),
    }),
  ],
}
