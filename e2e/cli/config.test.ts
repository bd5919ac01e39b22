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
    desk.write('breakfall.toml', '[policy]\nattemptsMax = 3\n')
    assert.equal(await tries(), 3)
    const env = { BREAKFALL_POLICY_ATTEMPTS_MAX: '4' }
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

  test('the environment can set every key that a run needs, and an unknown variable only warns', async () => {
    await using desk = await Desk.start([say('hello')])
    const env = {
      BREAKFALL_MODEL_BASE_URL: desk.model.url,
      BREAKFALL_MODEL_NAME: 'any',
      BREAKFALL_MODEL_API: 'openai-chat',
      BREAKFALL_MODEL_PROFILE: 'generic',
      BREAKFALL_DAEMON_STATE_DIR: join(desk.place.home, 'elsewhere'),
      BREAKFALL_MODEL_BASEURL: 'http://127.0.0.1:9/v1',
    }
    const run = await desk.run(['go'], { bare: true, env })
    endedWith(run, 0, 'finished')
    assert.match(run.stderr, /BREAKFALL_MODEL_BASEURL/)
    assert.ok(existsSync(join(desk.place.home, 'elsewhere', 'daemon.token')))
    assert.equal(existsSync(desk.stateDir), false)
  })

  const mistakes: readonly (readonly [what: string, toml: string, line: number, names: RegExp])[] = [
    ['an unknown key of a fallback', '[[model.fallback]]\nname = "x"\n\n[[model.fallback]]\nnaem = "y"\n', 5, /naem/],
    ['a value of another type', '[policy]\n\n\nattemptsMax = "six"\n', 4, /attemptsMax/],
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

  test('the output of config example is a valid config, also without the marks of its comments', async () => {
    await using desk = await Desk.start()
    const example = await desk.command(['config', 'example'])
    assert.equal(example.code, 0)
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

  test('reports a token file that others can read, and an unreachable model', async () => {
    await using desk = await Desk.start([say('done')])
    endedWith(await desk.run(), 0, 'finished')
    chmodSync(join(desk.stateDir, 'daemon.token'), 0o644)
    const ended = await desk.command(['doctor', '--json'], { env: { BREAKFALL_MODEL_BASE_URL: `${REFUSING_URL}/v1` } })
    const trouble = (ended.json as Json[]).filter(({ verdict }) => verdict === 'bad' || verdict === 'warn')
    assert.match(JSON.stringify(trouble), /daemon\.token/)
    assert.match(JSON.stringify(trouble), /127\.0\.0\.77/)
  })
})
