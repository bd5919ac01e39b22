/** What `--help` adds to the list of flags: examples to paste, and the exit codes. */

const EXIT_CODES_HELP = `
Exit codes:
  0 finished   1 failed   2 usage   3 parked or transient: try again later   4 credentials
  7 budget   125 daemon or runner unreachable   130 cancelled
`

export const PROGRAM_HELP = `
Examples:
  breakfall run "make the failing test pass"     one turn in this folder, with your model
  breakfall run --rehearsal                      see faults being survived, without a model
  breakfall run --continue                       take up a parked turn again
  breakfall gateway --upstream http://127.0.0.1:8080/v1
  breakfall chaos --upstream http://127.0.0.1:8080 --plan "rate=0.2"
  some-command 2>&1 | breakfall explain -

In a checkout "npm start -- WORDS" is "breakfall run WORDS"; the name of another command alone, or before flags, is that command.
${EXIT_CODES_HELP}`

/** By command. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  run: [
    'breakfall run "make the failing test pass"',
    'breakfall run --model qwen3-coder --base-url http://127.0.0.1:8080/v1 "add a test"',
    "breakfall run --continue                  take up this folder's parked turn again",
    'breakfall run --continue "now the docs"   the next prompt in the same session',
    'breakfall run - < task.md                 the prompt from a file or a pipe',
    'breakfall run --rehearsal --faults "seed=7,rate=0.3"',
    'breakfall run --json "…" | tail -1        the result, for a program',
  ],
  up: ['breakfall up --allow-workspace ~/projects', 'breakfall up --port 4711 --json'],
  runner: [
    'breakfall runner --port 7411 --token-file ./token --allow-workspace /srv/projects',
    'breakfall runner --port 0 --json',
  ],
  gateway: [
    'breakfall gateway --upstream http://127.0.0.1:8080/v1 --port 4000',
    'breakfall gateway --upstream http://127.0.0.1:8080/v1 --hold answer --watch',
  ],
  sessions: ['breakfall sessions', 'breakfall sessions --json'],
  show: ['breakfall show 0198c2a4-91e0              a session or a turn, by its id or the beginning of it'],
  cancel: ['breakfall cancel 0198c2a4-91e0 --reason "wrong branch"'],
  resume: ['breakfall resume 0198c2a4-91e0'],
  tail: ['breakfall tail 0198c2a4-91e0', 'breakfall tail 0198c2a4-91e0 --no-follow --json'],
  explain: [
    'some-command 2>&1 | breakfall explain -',
    'breakfall explain build.log',
    'breakfall explain "read ECONNRESET"',
    'breakfall explain 137                     an exit code',
    'breakfall explain model_stream_stalled    a category',
    'breakfall explain 0198c2a4-91e0           a turn, or the last one of a session',
  ],
  chaos: [
    'breakfall chaos --upstream http://127.0.0.1:8080 --plan "seed=7,rate=0.2,faults=reset+stall:2000"',
    'breakfall chaos --rehearsal --port 8080 --plan "at=2.1:reset"',
    'breakfall chaos --list',
  ],
  doctor: ['breakfall doctor', 'breakfall doctor --json'],
  'config show': ['breakfall config show --origin           what is set and where, and which model a run would use'],
  'config example': [
    'breakfall config example                 to read',
    'breakfall config example --write         to start from; a file of yours is never overwritten',
  ],
  'service print': ['breakfall service print > ~/.config/systemd/user/breakfall.service'],
  completion: [
    'breakfall completion bash > ~/.local/share/bash-completion/completions/breakfall',
    'breakfall completion zsh > ~/.zfunc/_breakfall      with ~/.zfunc in fpath',
    'breakfall completion fish > ~/.config/fish/completions/breakfall.fish',
  ],
}

/** Said here once more, since `--help` must not wait for the runner to be loaded. */
const BOX_HELP = `
Limits of a box, unless [limits] in the config says otherwise: memoryMb 1024, pids 256.
`

export function helpOf(command: string): string {
  const examples = EXAMPLES[command] ?? []
  const more = command === 'run' ? BOX_HELP + EXIT_CODES_HELP : ''
  return `\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}${more}`
}
