/** Configuration: precedence, refused settings, and how mistakes are reported. */
import assert from 'node:assert/strict'
import { chmodSync, existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test } from 'node:test'
import type { Ended } from '../breakfall.ts'
import { Desk, endedWith, REFUSING_URL } from './desk.ts'
import type { Json } from '../daemon/client.ts'
import { ask, bash, refuse, say } from '../answers.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const show = (desk: Desk, env: Record<string, string> = {}): Promise<Ended> =>
  desk.command(['config', 'show', '--origin', '--json'], { bare: true, env })

describe('config', { ...LIMIT, concurrency: 2 }, () => {
  test('precedence from low to high: the user’s file, the folder’s file, the environment, flags', async () => {
    await using desk = await Desk.start(Array.from({ length: 30 }, () => refuse(500, { message: 'broken' })))
    let asked = 0
    const tries = async (env: Record<string, string> = {}, flags: readonly string[] = []): Promise<number> => {
      endedWith(await desk.run([...flags, 'go'], { env }), 3, 'failed', 'model_server_error')
      const more = desk.model.received('any').length - asked
      asked += more
      return more
    }
    desk.config('[policy]\npark = "never"\nattemptsMax = 2\n')
    assert.equal(await tries(), 2)
    desk.write('breakfall.toml', '[policy]\nattemptsMax = 3\n')
    assert.equal(await tries(), 3)
    const env = { BREAKFALL_POLICY_ATTEMPTS_MAX: '4' }
    assert.equal(await tries(env), 4)
    assert.equal(await tries(env, ['--attempts-max', '5']), 5)
  })

  test('show --origin prints each setting and its origin', async () => {
    await using desk = await Desk.start()
    desk.config('[model]\nbaseUrl = "http://127.0.0.1:9/v1"\nname = "from-user"\n\n[policy]\nstepsMax = 7\n')
    desk.write('breakfall.toml', '[model]\nname = "from-folder"\n')
    const env = { BREAKFALL_POLICY_LIVENESS_MS: '4321' }
    const plain = await desk.command(['config', 'show', '--origin'], { bare: true, env })
    assert.equal(plain.code, 0, plain.stderr)
    const line = (key: RegExp): string =>
      plain.lines.find((text) => key.test(text)) ?? assert.fail(plain.lines.join('\n'))
    assert.match(line(/baseUrl/), /config\.toml:2/)
    assert.match(line(/stepsMax/), /config\.toml:6/)
    assert.match(line(/\bname\b/), /from-folder.*breakfall\.toml:2/)
    assert.match(line(/livenessMs/), /4321.*BREAKFALL_POLICY_LIVENESS_MS/)
    const json = await show(desk, env)
    assert.equal(json.json.at(-1)?.['event'], 'result')
    const said = JSON.stringify(json.json)
    for (const part of ['from-folder', 'breakfall.toml', 'BREAKFALL_POLICY_LIVENESS_MS', '4321'])
      assert.ok(said.includes(part), `${part}: ${said}`)
  })

  test('the environment can set every key that a run needs', async () => {
    await using desk = await Desk.start([say('hello')])
    const env = {
      BREAKFALL_MODEL_BASE_URL: desk.model.url,
      BREAKFALL_MODEL_NAME: 'any',
      BREAKFALL_MODEL_API: 'openai-chat',
      BREAKFALL_MODEL_PROFILE: 'generic',
      BREAKFALL_DAEMON_STATE_DIR: join(desk.place.home, 'elsewhere'),
    }
    const run = await desk.run(['go'], { bare: true, env })
    endedWith(run, 0, 'finished')
    assert.ok(existsSync(join(desk.place.home, 'elsewhere', 'daemon.token')))
    assert.equal(existsSync(desk.stateDir), false)
  })

  const mistakes: readonly (readonly [what: string, toml: string, line: number, names: RegExp])[] = [
    ['an unknown key', '[model]\nname = "x"\nbaseUrll = "http://127.0.0.1:9"\n', 3, /baseUrll/],
    ['an unknown table', '[model]\nname = "x"\n\n[modle]\nname = "y"\n', 4, /modle/],
    ['an unknown key of a fallback', '[[model.fallback]]\nname = "x"\n\n[[model.fallback]]\nnaem = "y"\n', 5, /naem/],
    ['a value of another type', '[policy]\n\n\nattemptsMax = "six"\n', 4, /attemptsMax/],
    ['a number out of range', '[policy]\nattemptsMax = 0\n', 2, /attemptsMax/],
    ['a word that is none of the choices', '[policy]\npark = "maybe"\n', 2, /auto.*never/],
    ['a file that is no TOML', '[model]\nname = "x\n', 2, /./],
  ]
  for (const [what, toml, line, names] of mistakes)
    test(`${what} is an error that names file and line`, async () => {
      await using desk = await Desk.start([say('not asked')])
      desk.config(toml)
      const ended = await desk.command(['run', '--json', 'go'])
      assert.equal(ended.code, 2, ended.stderr)
      assert.match(ended.stderr, names)
      assert.ok(ended.stderr.includes(`${desk.configFile}:${line}`), `${desk.configFile}:${line} in ${ended.stderr}`)
      assert.equal(desk.model.received('any').length, 0)
    })

  test('an unknown BREAKFALL_ variable only warns', async () => {
    await using desk = await Desk.start([say('fine')])
    const run = await desk.run(['go'], { env: { BREAKFALL_MODEL_BASEURL: 'http://127.0.0.1:9/v1' } })
    endedWith(run, 0, 'finished')
    assert.match(run.stderr, /BREAKFALL_MODEL_BASEURL/)
  })

  test('a bad value of a variable is reported with the variable’s name', async () => {
    await using desk = await Desk.start([say('not asked')])
    const ended = await desk.command(['run', '--json', 'go'], { env: { BREAKFALL_POLICY_ATTEMPTS_MAX: 'many' } })
    assert.equal(ended.code, 2)
    assert.match(ended.stderr, /BREAKFALL_POLICY_ATTEMPTS_MAX/)
  })

  const dangerous: readonly (readonly [key: string, toml: string])[] = [
    ['command', '[model.serve]\ncommand = ["touch", "owned"]\n'],
    ['resolveCommand', '[runner]\nresolveCommand = ["touch", "owned"]\n'],
    ['apiKeyEnv', '[model]\napiKeyEnv = "HOME"\n'],
  ]
  test('a folder’s config file cannot set commands, URLs, keys or trust, and the refusal says so', async () => {
    await using desk = await Desk.start([say('not asked')])
    for (const [key, toml] of dangerous) {
      desk.write('breakfall.toml', toml)
      const ended = await desk.command(['run', '--json', 'go'])
      assert.equal(ended.code, 2, `${key}: ${ended.lines.join('\n')}${ended.stderr}`)
      assert.match(ended.stderr, /breakfall\.toml/, key)
      assert.match(ended.stderr, new RegExp(key), key)
    }
    assert.equal(desk.model.received('any').length, 0)
    assert.equal(existsSync(join(desk.folder, 'owned')), false)
  })

  test('a folder’s config file may set the model’s name, limits and policy', async () => {
    await using desk = await Desk.start()
    desk.model.script('of-the-folder', [ask([bash('ulimit -a >/dev/null; echo ok')]), say('done')])
    desk.write(
      'breakfall.toml',
      '[model]\nname = "of-the-folder"\n\n[limits]\nmemoryMb = 64\n\n[policy]\nstepsMax = 2\n',
    )
    const run = await desk.run(['go'], { bare: true, env: { BREAKFALL_MODEL_BASE_URL: desk.model.url } })
    endedWith(run, 0, 'finished')
    assert.equal(desk.model.received('of-the-folder').length, 2)
  })

  test('the output of config example is a valid config', async () => {
    await using desk = await Desk.start([say('fine')])
    const example = await desk.command(['config', 'example'])
    assert.equal(example.code, 0)
    desk.config(example.lines.join('\n'))
    endedWith(await desk.run(), 0, 'finished')
    desk.config(example.lines.map((line) => line.replace(/^# (\[|\w+ = )/, '$1')).join('\n'))
    const all = await show(desk)
    assert.equal(all.code, 0, all.stderr)
    assert.match(all.lines.join('\n'), /livenessMs/)
  })
})

describe('doctor --json', { ...LIMIT, concurrency: 2 }, () => {
  test('reports a mistake in a config file as a finding, and runs the other checks', async () => {
    await using desk = await Desk.start()
    desk.config('[modle]\nname = "x"\n')
    const { code, json, stderr } = await desk.command(['doctor', '--json'])
    assert.equal(code, 1, stderr)
    const [config] = json.filter(({ check }) => check === 'config')
    assert.equal(config?.['verdict'], 'bad')
    assert.match(String(config?.['found']), /config\.toml:1: .*modle/)
    assert.ok(json.length > 6 && json.some(({ check, verdict }) => check === 'Node' && verdict === 'ok'), stderr)
  })

  test('prints a verdict for each check, a fix for each problem, and a final result', async () => {
    await using desk = await Desk.start()
    const ended = await desk.command(['doctor', '--json'])
    const findings = ended.json.slice(0, -1) as Json[]
    assert.equal(ended.json.length, ended.lines.length, 'nothing but JSON')
    assert.equal(ended.json.at(-1)?.['event'], 'result')
    assert.ok(findings.length >= 5, ended.lines.join('\n'))
    for (const finding of findings) {
      assert.ok(['ok', 'warn', 'bad'].includes(finding.verdict), JSON.stringify(finding))
      if (finding.verdict !== 'ok') assert.ok(finding.fix, JSON.stringify(finding))
    }
    const all = findings.map(({ check }) => String(check).toLowerCase()).join(' ')
    for (const part of ['node', 'sandbox', 'disk', 'port', 'model', 'daemon']) assert.ok(all.includes(part), all)
    assert.equal(ended.code, findings.some(({ verdict }) => verdict === 'bad') ? 1 : 0)
  })

  test('reports a token file that others can read, an unreachable model and a wrong config', async () => {
    await using desk = await Desk.start([say('done')])
    endedWith(await desk.run(), 0, 'finished')
    chmodSync(join(desk.stateDir, 'daemon.token'), 0o644)
    const ended = await desk.command(['doctor', '--json'], { env: { BREAKFALL_MODEL_BASE_URL: `${REFUSING_URL}/v1` } })
    const trouble = (ended.json as Json[]).filter(({ verdict }) => verdict === 'bad' || verdict === 'warn')
    assert.match(JSON.stringify(trouble), /daemon\.token/)
    assert.match(JSON.stringify(trouble), /127\.0\.0\.77/)
    desk.config('[modell]\n')
    const wrong = await desk.command(['doctor', '--json'])
    assert.match(wrong.lines.join('\n') + wrong.stderr, /config\.toml:1/)
    assert.notEqual(wrong.code, 0)
  })
})
