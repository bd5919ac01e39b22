/** What `--help` adds to the flags: examples to copy, and the exit codes. */

const EXIT_CODES_HELP = `
Exit codes:
  0 finished   1 failed   2 usage   3 parked or transient: retry later   4 credentials or approval
  7 budget   125 daemon or runner unreachable   130 cancelled
`

export const PROGRAM_HELP = `
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

/** By command. */
const EXAMPLES: Readonly<Record<string, readonly string[]>> = {
  run: [
    'breakfall run "make the failing test pass"',
    'breakfall run --model qwen3-coder --base-url http://127.0.0.1:8080/v1 "add a test"',
    "breakfall run --continue                  continue this folder's parked turn",
    'breakfall run --continue "now the docs"   the next prompt in the same session',
    'breakfall run - < task.md                 the prompt from a file or a pipe',
    'breakfall run --rehearsal --faults "seed=7,rate=0.3"',
    'breakfall run --json "…" | tail -1        the result, for a program',
  ],
  up: [
    'breakfall up --allow-workspace ~/projects',
    'breakfall up --resume none                continue no unfinished turn until you ask for it',
    'breakfall up --open                       with the console in your browser',
    'breakfall up --port 4711 --json',
  ],
  open: ['breakfall open', 'breakfall open --print                    the address, for another browser'],
  demo: ['breakfall demo', 'breakfall demo --plan "rate=0.3"          break a third of all answers'],
  runner: [
    'breakfall runner --port 7411 --token-file ./token --allow-workspace /srv/projects',
    'breakfall runner --port 0 --json',
    'breakfall runner --join http://daemons:7400 --label gpu --enroll CODE',
  ],
  runners: [
    'breakfall runners',
    'breakfall runners drain 0198c2a4-91e0       no more sessions are placed there',
    'breakfall runners drop 0198c2a4-91e0        declare it lost: its sessions move to other runners',
  ],
  daemons: ['breakfall daemons', 'breakfall daemons drain daemon-1           it hands over its sessions'],
  fleet: ['breakfall fleet enroll                    a code for: breakfall runner --join URL --enroll CODE'],
  gateway: [
    'breakfall gateway --upstream http://127.0.0.1:8080/v1 --port 4000',
    'breakfall gateway --upstream http://127.0.0.1:8080/v1 --hold answer --watch',
  ],
  sessions: [
    'breakfall sessions',
    'breakfall sessions --here --state failed,parked',
    'breakfall sessions --search parser --json',
  ],
  output: ['breakfall output EXEC > build.log          EXEC: the execId of a tool-call event'],
  processes: [
    'breakfall processes',
    'breakfall processes stop web              by its name, or by the id of its exec',
    'breakfall processes stop web --session 0198c2a4-91e0',
  ],
  undo: [
    'breakfall undo --dry-run                  what undo of the last turn in this folder would change',
    'breakfall undo',
    'breakfall undo --redo                     reverse the undo',
    'breakfall undo --path src/app.ts          only this file',
    'breakfall undo 0198c2a4-91e0 --list       the checkpoints of a session',
  ],
  diff: ['breakfall diff', 'breakfall diff 0198c2a4-91e0 --stat       a session, or one turn'],
  export: [
    'breakfall export 0198c2a4-91e0 --output bundle.ndjson',
    'breakfall export 0198c2a4-91e0 --redact text > bundle.ndjson',
  ],
  show: ['breakfall show 0198c2a4-91e0              a session or a turn, by its id or the first characters of it'],
  cancel: ['breakfall cancel 0198c2a4-91e0 --reason "wrong branch"'],
  resume: ['breakfall resume 0198c2a4-91e0'],
  approve: [
    'breakfall approve                         what waits for you',
    'breakfall approve 0198c2a4-91e0',
    'breakfall approve 0198c2a4-91e0 --deny --reason "use the staging server"',
  ],
  'mcp list': ['breakfall mcp list'],
  'mcp tools': ['breakfall mcp tools files'],
  'mcp call': ['breakfall mcp call files read_file \'{"path":"/tmp/a"}\''],
  'mcp logs': ['breakfall mcp logs files'],
  'mcp restart': ['breakfall mcp restart files'],
  'mcp login': [
    'breakfall mcp login docs',
    'breakfall mcp login docs --print             over SSH: open the page yourself',
  ],
  'mcp logout': ['breakfall mcp logout docs'],
  'mcp import': ['breakfall mcp import ~/.config/agent/mcp.json   a file with "mcpServers"'],
  rm: ['breakfall rm 0198c2a4-91e0 0198c2a5-03b1'],
  prune: [
    'breakfall prune --dry-run                 what is 30 days old',
    'breakfall prune --older-than 7d',
    'breakfall prune --keep 100                all but the 100 that were used last',
  ],
  uninstall: ['breakfall uninstall --yes                 the program itself stays: npm uninstall breakfall'],
  tail: ['breakfall tail 0198c2a4-91e0', 'breakfall tail 0198c2a4-91e0 --no-follow --json'],
  explain: [
    'some-command 2>&1 | breakfall explain -',
    'breakfall explain build.log',
    'breakfall explain "read ECONNRESET"',
    'breakfall explain 137                     an exit code',
    'breakfall explain model_stream_stalled    a category',
    'breakfall explain 0198c2a4-91e0           a turn, or the last turn of a session',
  ],
  chaos: [
    'breakfall chaos --upstream http://127.0.0.1:8080 --plan "seed=7,rate=0.2,faults=reset+stall:2000"',
    'breakfall chaos --rehearsal --port 8080 --plan "at=2.1:reset"',
    'breakfall chaos --list',
  ],
  trial: [
    'breakfall trial -- claude -p "do the task"',
    'breakfall trial --through-gateway -- my-agent --base-url {url} "do the task"',
    'breakfall trial --require exact=100 --json -- ./agent.sh',
  ],
  doctor: [
    'breakfall doctor',
    'breakfall doctor --json',
    'breakfall doctor --start-model           start the model server of [model.serve] once, and stop it again',
  ],
  store: [
    'breakfall store migrate --store URL       creates the tables in a database, or updates them',
    'breakfall store export sessions.jsonl     all sessions of the state folder; no daemon may run on it',
    'breakfall store import sessions.jsonl --store URL    puts them into the database',
    'breakfall store check                     compares every event of every session with its hash',
    'breakfall store adopt --store URL         lets daemons use a restored copy of a database',
  ],
  login: ['breakfall login cloud', 'pass show openai | breakfall login cloud'],
  logout: ['breakfall logout cloud'],
  'config show': ['breakfall config show --origin           what is set, where, and which model a run would use'],
  'config example': [
    'breakfall config example                 print it',
    'breakfall config example --write         write it as your config file; never overwrites one',
  ],
  'service print': ['breakfall service print > ~/.config/systemd/user/breakfall.service'],
  completion: [
    'breakfall completion bash > ~/.local/share/bash-completion/completions/breakfall',
    'breakfall completion zsh > ~/.zfunc/_breakfall      with ~/.zfunc in fpath',
    'breakfall completion fish > ~/.config/fish/completions/breakfall.fish',
  ],
}

/** Repeats the runner's defaults, because `--help` must not load the runner. `help.test.ts` compares them. */
const BOX_HELP = `
Default limits of a box, which [limits] in the config changes: memoryMb 1024, pids 256.
`

const TRIAL_HELP = `
{url} in an argument becomes the base URL with /v1, {origin} the one without. OPENAI_BASE_URL, ANTHROPIC_BASE_URL and
GOOGLE_GEMINI_BASE_URL are set, with keys that mean nothing. The command runs in an empty folder and has to exit on its own.

Exit codes:
  0 finished, and --require holds   1 --require does not hold   2 usage, or the command fails without faults   130 cancelled
`

const DOCTOR_HELP = `
Exit codes:
  0 ready   1 problems to fix   2 usage, or a wrong configuration   130 cancelled
`

const MORE: Readonly<Record<string, string>> = {
  run: BOX_HELP + EXIT_CODES_HELP,
  trial: TRIAL_HELP,
  doctor: DOCTOR_HELP,
}

export function helpOf(command: string): string {
  const examples = EXAMPLES[command] ?? []
  const more = MORE[command] ?? ''
  return `\nExamples:\n${examples.map((line) => `  ${line}\n`).join('')}${more}`
}
