import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { isFault } from '@breakfall/faults'
import { showConfig } from '../src/commands/config/config.ts'
import { EXAMPLE_CONFIG } from '../src/commands/config/example.ts'
import { loadConfig, type LoadedConfig } from '../src/config/load.ts'
import { variables } from '../src/config/schema.ts'
import { capturedOutput } from './samples.ts'

const home = mkdtempSync(join(tmpdir(), 'breakfall config-'))
after(() => rmSync(home, { recursive: true, force: true }))
const folder = join(home, 'project')
mkdirSync(folder)
mkdirSync(join(home, 'breakfall'))
const userFile = join(home, 'breakfall', 'config.toml')
const folderFile = join(folder, 'breakfall.toml')

function load(files: { user?: string; folder?: string }, env: Record<string, string> = {}, flags = {}): LoadedConfig {
  writeFileSync(userFile, files.user ?? '')
  writeFileSync(folderFile, files.folder ?? '')
  return loadConfig({ env: { XDG_CONFIG_HOME: home, ...env }, folder, flags })
}

function refusal(files: { user?: string; folder?: string }, env: Record<string, string> = {}): string {
  try {
    load(files, env)
  } catch (error) {
    assert.ok(isFault(error))
    assert.equal(error.category, 'invalid_request')
    const [happened = '', advice] = error.error.split('. Nothing started. ')
    assert.equal(advice, 'Correct it there; "breakfall config example" shows every key.')
    return happened
  }
  return assert.fail('accepted')
}

test('later wins (file, folder, environment, flag), and each value keeps its origin', () => {
  const files = {
    user: '[model]\nbaseUrl = "http://127.0.0.1:1/v1"\nname = "a"\n[policy]\nattemptsMax = 2\nbackoffMs = 1\n',
    folder: '\n[model]\nname = "b"\n[policy]\nbackoffMs = 2\n',
  }
  const loaded = load(
    files,
    { BREAKFALL_POLICY_BACKOFF_MS: '3' },
    { 'policy.attemptsMax': { value: 9, flag: '--attempts-max' } },
  )
  assert.deepEqual(loaded.config, {
    model: { baseUrl: 'http://127.0.0.1:1/v1', name: 'b' },
    policy: { attemptsMax: 9, backoffMs: 3 },
  })
  assert.equal(loaded.origins.get('model.baseUrl'), `${userFile}:2`)
  assert.equal(loaded.origins.get('model.name'), `${folderFile}:3`)
  assert.equal(loaded.origins.get('policy.backoffMs'), 'environment BREAKFALL_POLICY_BACKOFF_MS')
  assert.equal(loaded.origins.get('policy.attemptsMax'), 'flag --attempts-max')
})

test('a command of [model.serve] without {port} is an error that names file and line', () => {
  for (const command of ['["llama-server", "--port", "8080"]', '["{port}"]'])
    assert.match(
      refusal({ user: `[model]\nname = "x"\n[model.serve]\ncommand = ${command}\n` }),
      /config\.toml:4: model\.serve\.command must be a command with \{port\} in an argument/,
    )
  const { config } = load({ user: '[model.serve]\ncommand = ["env", "HOST=127.0.0.1:{port}", "my-server"]\n' })
  assert.equal(config.model?.serve?.command.length, 3)
})

test('an unknown key is an error that names file and line', () => {
  assert.equal(
    refusal({ user: '# mine\n[model]\nname = "x"\nbaseURL = "http://x"\n' }),
    `${userFile}:4: unknown key model.baseURL (did you mean baseUrl?)`,
  )
  assert.equal(refusal({ user: '[modle]\nname = "x"\n' }), `${userFile}:1: unknown key modle (did you mean model?)`)
})

test('a bad value is an error that names file, line, the expected and the given value', () => {
  assert.equal(
    refusal({ user: '[policy]\n\nattemptsMax = 0\n' }),
    `${userFile}:3: policy.attemptsMax must be an integer from 1 to 100, got 0`,
  )
  assert.match(
    refusal({ user: '[model]\napi = "openai"\n' }),
    /:2: model\.api must be one of openai-chat, openai-responses, anthropic-messages, got "openai"$/,
  )
  assert.match(
    refusal({ user: '[[model.fallback]]\nname = "a"\n[[model.fallback]]\nurl = "b"\n' }),
    /:4: unknown key model\.fallback\.1\.url$/,
  )
})

test('a misspelled key gets a suggestion if one is close', () => {
  assert.match(
    refusal({ user: '[model]\nbase_url = "x"\n' }),
    /unknown key model\.base_url \(did you mean baseUrl\?\)$/,
  )
  assert.match(
    refusal({ user: '[[model.fallback]]\nprofil = "openai"\n' }),
    /unknown key model\.fallback\.0\.profil \(did you mean profile\?\)$/,
  )
  assert.match(refusal({ user: '[policy]\nnonsense = 1\n' }), /unknown key policy\.nonsense$/)
})

test('broken TOML names the line', () => {
  assert.match(refusal({ user: '[model]\nname = \n' }), /config\.toml:2: not valid TOML/)
  assert.match(refusal({ user: '[box]\n[box]\n' }), /config\.toml:2: not valid TOML/)
})

test('a model that is set as a name and as a table says so', () => {
  for (const table of ['[model]\nname = "x"', '[model.serve]\ncommand = ["x"]', '[[model.fallback]]\nname = "x"'])
    assert.match(
      refusal({ user: `model = "cloud/x"\n${table}\n` }),
      /config\.toml:2: model is set twice, as `model = …` and/,
    )
  const { config } = load({ user: `model = "cloud/gpt-5"\n${EXAMPLE_CONFIG}` })
  assert.equal(config.model?.name, 'cloud/gpt-5', 'the written example leaves room for it')
})

test("a cloned folder's file cannot set a command, a URL or a key", () => {
  for (const text of [
    '[model]\nbaseUrl = "http://evil.example/v1"',
    '[model]\napiKeyEnv = "HOME"',
    '[model.serve]\ncommand = ["sh"]',
    '[runner]\nresolveCommand = ["sh"]',
    '[runner]\nurl = "http://evil.example"',
    '[daemon]\nport = 1',
    '[remote_runner]\nendpoint = "http://evil.example"',
    '[[model.fallback]]\nname = "x"',
    '[runner]\nresolveUrl = "http://evil.example"',
    '[runner]\ntokenFile = "/etc/passwd"',
    '[runner]\nisolation = "process"',
    '[runner]\nallowWorkspace = ["/"]',
    '[daemon]\nstateDir = "/tmp/x"',
    '[gateway]\nupstream = "http://evil.example/v1"',
  ]) {
    assert.match(refusal({ folder: text }), /breakfall\.toml:\d+: .* cannot be set by a folder's file/)
  }
  load({ folder: '[model]\nname = "x"\n[policy]\nstepsMax = 5\n[limits]\nmemoryMb = 512\n' })
})

test('every key has a variable, an unknown BREAKFALL_ variable is a warning, a bad value names the variable', () => {
  assert.deepEqual(variables().get('BREAKFALL_MODEL_BASE_URL'), ['model', 'baseUrl'])
  assert.deepEqual(variables().get('BREAKFALL_POLICY_LIVENESS_MS'), ['policy', 'livenessMs'])
  const loaded = load(
    {},
    { BREAKFALL_MODEL_BASEURL: 'x', BREAKFALL_MODEL_NAME: '7', BREAKFALL_RUNNER_RESOLVE_COMMAND: 'find runner' },
  )
  assert.deepEqual(loaded.config, { model: { name: '7' }, runner: { resolveCommand: ['find', 'runner'] } })
  assert.deepEqual(loaded.warnings.length, 1)
  assert.match(loaded.warnings[0] ?? '', /BREAKFALL_MODEL_BASEURL .*did you mean BREAKFALL_MODEL_BASE_URL\?/)
  assert.match(
    refusal({}, { BREAKFALL_POLICY_ATTEMPTS_MAX: 'many' }),
    /^environment BREAKFALL_POLICY_ATTEMPTS_MAX: policy\.attemptsMax must be an integer/,
  )
})

test('the numbers and lists of a fleet can be set in the environment', () => {
  const { config } = load(
    {},
    {
      BREAKFALL_DAEMON_LEASE_MS: '5000',
      BREAKFALL_DAEMON_DRAIN_MS: '60000',
      BREAKFALL_FLEET_KEEP_DAYS: '30',
      BREAKFALL_FLEET_REPLACE_AFTER_MS: '600000',
      BREAKFALL_RUNNER_JOIN: 'http://a http://b',
      BREAKFALL_RUNNER_LABELS: 'gpu big',
      BREAKFALL_RUNNER_CAPACITY: '7',
    },
  )
  assert.deepEqual(config, {
    daemon: { leaseMs: 5_000, drainMs: 60_000 },
    fleet: { keepDays: 30, replaceAfterMs: 600_000 },
    runner: { join: ['http://a', 'http://b'], labels: ['gpu', 'big'], capacity: 7 },
  })
})

test('a clone cannot make the reader hang: a device, a pipe, a folder and a huge file are refused', () => {
  const cloned = join(home, 'cloned')
  const file = join(cloned, 'breakfall.toml')
  const makers: readonly [() => void, string][] = [
    [() => symlinkSync('/dev/zero', file), 'is not a file'],
    [() => void execFileSync('mkfifo', [file]), 'is not a file'],
    [() => mkdirSync(file), 'is not a file'],
    [() => writeFileSync(file, `#${'x'.repeat(1024 * 1024)}`), 'is longer than 1 MiB'],
    [() => symlinkSync(file, file), 'cannot be read (ELOOP). It is a link to itself; remove it.'],
  ]
  for (const [make, why] of makers) {
    mkdirSync(cloned)
    make()
    assert.throws(
      () => loadConfig({ env: { XDG_CONFIG_HOME: '/nowhere' }, folder: cloned }),
      (error) => isFault(error) && error.error === `The config file ${file} ${why}`,
    )
    rmSync(cloned, { recursive: true })
  }
})

test('an empty model name is refused, with its origin', () => {
  assert.match(refusal({ user: '[model]\nname = ""' }), /model\.name must be a model's name/)
  assert.throws(() => load({}, {}, { 'model.name': { value: '', flag: '--model' } }), /--model: model\.name must be/)
  assert.equal(load({}, { BREAKFALL_MODEL_NAME: '' }).config.model?.name, undefined, 'an empty variable is unset')
})

test('if nothing is set, the files that were read are named', () => {
  const { out, text } = capturedOutput()
  showConfig({ loaded: load({}), providers: [] }, { kind: 'none' }, { origin: false }, out)
  assert.equal(
    text().split('\n')[0],
    `# nothing is set in ${userFile}, ${folderFile}: all defaults. See: breakfall config example`,
  )
})
