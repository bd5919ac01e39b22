/** Tools from outside, as a user meets them on the command line: lists, hostile text, keys at a terminal, exit codes. */
import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { eventually, LIMIT } from '../../test/kit/wait.ts'
import { badServer } from '../../packages/daemon/test/support/mcp.ts'
import { ask, say } from '../answers.ts'
import { hasTerminals, isolation } from '../breakfall.ts'
import { startOauthMcp } from '../../packages/mcp/test/oauth-server.ts'
import { Desk, endedWith, filesWith, serverIsolation } from './desk.ts'

const table = (name: string, { command, args }: { command: string; args: readonly string[] }): string =>
  `[mcp.${name}]\ncommand = ${JSON.stringify(command)}\nargs = ${JSON.stringify(args)}\n`

const act = (n: number) => ask([{ tool: 'mcp__good__act', arguments: { n } }])
const ONLY = '[run]\ntools = ["mcp__good"]\n'
const CONTROLS = /(?![\n\t])\p{Cc}|\u202e/u

test('without a daemon, a broken server holds up neither the list nor another server', LIMIT, async () => {
  await using desk = await Desk.start()
  const good = badServer(desk.folder, 'dies-in-call')
  desk.config(table('good', good.config) + table('broken', badServer(join(desk.folder), 'exits').config))
  const list = await desk.command(['mcp', 'list'])
  const text = list.lines.join('\n')
  assert.match(text, /^good +ready +2 tools/m)
  assert.match(text, /^broken +restarting .*\n {2}The MCP server broken failed \(it exited with code 7/m)
  const tools = await desk.command(['mcp', 'tools', 'good', '--json'])
  assert.match(tools.lines.at(-1) ?? '', /"mcp__good__act".*"mcp__good__look"/)
  const call = await desk.command(['mcp', 'call', 'good', 'act', '{"n":4}'])
  assert.deepEqual([call.code, call.lines.join(''), good.ran('act')], [0, 'act done 4', 1])
  good.dieInNextCall()
  const lost = await desk.command(['mcp', 'call', 'good', 'act', '{"n":5}'])
  assert.equal(lost.code, 3)
  assert.match(
    lost.stderr,
    /about to die\n[^]*The MCP server good failed .*The call may have had an effect, and was not repeated\./,
  )
  assert.ok(!lost.stderr.includes('mcp logs'), 'that would start another server')
  const missing = await desk.command(['mcp', 'tools', 'nobody'])
  assert.match(missing.stderr, /No MCP server is called nobody/)
})

test('what helps with a missing program, a silent server and a wrong tool is said', LIMIT, async () => {
  await using desk = await Desk.start()
  const good = badServer(desk.folder, 'dies-in-call')
  desk.config(
    table('good', good.config) +
      table('bad', { command: 'no-such-program-x', args: [] }) +
      table('quiet', { command: 'sh', args: ['-c', 'exit 3'] }),
  )
  const said = async (words: string): Promise<string> => (await desk.command(['mcp', ...words.split(' ')])).stderr
  assert.match(
    await said('tools bad'),
    /no program no-such-program-x on the PATH\)\. Install it, or correct \[mcp\.bad\]/,
  )
  assert.match(await said('call bad x {}'), /Install it, or correct \[mcp\.bad\] command in your config\.toml\./)
  assert.match(await said('tools quiet'), /it exited with code 3\)\. It printed nothing on stderr\./)
  assert.match(await said('logs quiet'), /^quiet has printed nothing on stderr$/m)
  assert.match(await said('call good nope {}'), /nope is not offered.*To see its tools: breakfall mcp tools good/)
})

test(
  'without a daemon, the list waits for a server that npx may be downloading, and shows the others at once',
  LIMIT,
  async () => {
    await using desk = await Desk.start()
    const late = badServer(desk.folder, 'late')
    const { command, args } = late.config
    const npx = desk.write('npx', `#!/bin/sh\nexec ${[command, ...args].map((word) => `'${word}'`).join(' ')}\n`, 0o755)
    const broken = { command: 'sh', args: ['-c', 'echo boom >&2; exit 3'] }
    desk.config(`${table('late', { command: npx, args: [] })}startMs = 120000\n${table('broken', broken)}`)
    const list = desk.start(['mcp', 'list'])
    await list.line((line) => line.includes('it exited with code 3; its last line was: boom'))
    await eventually('the notice', () =>
      list.stderr.includes('late is starting (npx may be downloading); waiting up to'),
    )
    late.open()
    const { code, lines } = await list.ended
    assert.match(lines.join('\n'), /^late +ready +2 tools/m)
    assert.deepEqual([code, late.ran('start')], [0, 1], 'it was not started twice')
  },
)

test(
  'a run ends after the first start of a server that npx may be downloading, and says so after its result',
  LIMIT,
  async () => {
    await using desk = await Desk.start([say('all done')])
    const late = badServer(desk.folder, 'late')
    const { command, args } = late.config
    const npx = desk.write('npx', `#!/bin/sh\nexec ${[command, ...args].map((word) => `'${word}'`).join(' ')}\n`, 0o755)
    desk.config(`${table('late', { command: npx, args: [] })}startMs = 120000\n`)
    const run = desk.begin(['go'])
    await run.seen(({ event }) => event === 'result')
    await eventually('the notice', () => run.stderr.includes('mcp: npx may still be downloading late; waiting up to'))
    late.open()
    const { code, stderr } = await run.ended
    assert.equal(code, 0, stderr)
    assert.equal(late.ran('start'), 1)
  },
)

test(
  'a server that cannot start: tools and call end alike, with a daemon or without; a run and the doctor name it',
  LIMIT,
  async () => {
    await using desk = await Desk.start([say('all done')])
    const line =
      "Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'zod' imported from /h/.npm/_npx/0a1b/node_modules/x/i.js"
    const stderr = `process.stderr.write(${JSON.stringify(`${line}\n`)}); process.exitCode = 1`
    desk.config(table('bad', { command: process.execPath, args: ['-e', stderr] }))
    const doctor = await desk.command(['doctor'])
    assert.match(doctor.lines.join('\n'), /bad: configured \(.*\), not started here/)
    const why = /an npx download is incomplete; remove its folder and try again \(\/h\/\.npm\/_npx\/0a1b\)/
    const endAlike = async (): Promise<void> => {
      const tools = await desk.command(['mcp', 'tools', 'bad'])
      const call = await desk.command(['mcp', 'call', 'bad', 'act'])
      assert.match(tools.stderr, why)
      assert.deepEqual([tools.code, tools.stderr], [call.code, call.stderr])
      assert.notEqual(tools.code, 0)
    }
    await endAlike()
    const up = desk.start(['up', '--json', '--port', '0', ...serverIsolation])
    await up.listening()
    const run = await desk.command(['run', 'go', ...isolation])
    assert.equal(run.code, 0, run.stderr)
    assert.match(run.stderr, /^mcp: bad is not ready; its tools are missing: The MCP server bad failed \(an npx/m)
    await endAlike()
  },
)

test('nothing that a server says reaches a terminal raw: names, descriptions, results, log lines', LIMIT, async () => {
  await using desk = await Desk.start()
  desk.config(table('good', badServer(desk.folder, 'hostile').config))
  for (const args of [
    ['mcp', 'tools', 'good'],
    ['mcp', 'tools', 'good', '--json'],
    ['mcp', 'call', 'good', 'act'],
    ['mcp', 'logs', 'good'],
  ]) {
    const { lines, stderr } = await desk.command(args)
    const text = `${lines.join('\n')}\n${stderr}`
    assert.match(text, /gnp\.exe/)
    assert.doesNotMatch(text, CONTROLS, args.join(' '))
  }
})

test(
  'a run without a terminal exits with 4, names the command, and that command finishes the turn',
  LIMIT,
  async () => {
    await using desk = await Desk.start([act(1), say('all done')])
    const good = badServer(desk.folder)
    desk.config(table('good', good.config) + ONLY)
    const run = await desk.command(['run', 'go', ...isolation])
    const said = `${run.lines.join('\n')}\n${run.stderr}`
    const [, session = ''] = /to allow it: breakfall approve (\S+);/.exec(said) ?? assert.fail(said)
    assert.deepEqual([run.code, good.ran('act')], [4, 0])
    const listed = await desk.command(['approve'])
    assert.match(listed.lines.join('\n'), /mcp__good__act \{"n":1\}/)
    const approved = await desk.command(['approve', session, '--json'])
    assert.equal(approved.code, 0, approved.stderr)
    assert.deepEqual([approved.json.at(-1)?.['text'], good.ran('act')], ['all done', 1])
    assert.deepEqual(
      approved.json.slice(0, 2).map(({ type }) => type),
      ['approval', 'resumed'],
      'not asked again',
    )
  },
)

test(
  'at a terminal, y, a with Enter and n answer: once, for the session, and no; an arrow key does not',
  { ...LIMIT, skip: !hasTerminals },
  async () => {
    await using desk = await Desk.start([act(1), act(2), act(3), say('all done')])
    const good = badServer(desk.folder)
    desk.config(`${table('good', good.config)}${ONLY}[model]\nbaseUrl = "${desk.model.url}"\nname = "any"\n`)
    const run = desk.place.startInTerminal(['run', 'go'])
    await run.shown(/"n":1\}[^]*\[y\] allow/)
    run.press('\x1b[A') // Up
    await run.shown(/That answers nothing/)
    run.press('n')
    await run.shown(/"n":2\}[^]*\[y\] allow/)
    run.press('y')
    await run.shown(/"n":3\}[^]*\[y\] allow/)
    run.press('a')
    await run.shown(/Press Enter to allow/)
    run.press('\r')
    await run.shown(/all done/)
    assert.equal(await run.code, 0, run.text())
    assert.deepEqual(
      good.lines().filter((line) => line.startsWith('act')),
      ['act 2', 'act 3'],
    )
    const denied = desk.model.received('any').at(1)
    assert.match(JSON.stringify(denied?.messages), /the user denied it/)
  },
)

test(
  "a server's question is answered at a terminal field by field, or from another one by approve --value",
  { ...LIMIT, skip: !hasTerminals },
  async () => {
    await using desk = await Desk.start([act(1), act(2), say('all done')])
    const good = badServer(desk.folder, 'asks')
    desk.config(`${table('good', good.config)}${ONLY}[model]\nbaseUrl = "${desk.model.url}"\nname = "any"\n`)
    const run = desk.place.startInTerminal(['run', 'go'])
    await run.shown(/\[y\] allow/)
    run.press('y')
    await run.shown(/\? good asks: Which account\?[^]*\[y\] answer {3}\[n\] decline/)
    run.press('y')
    await run.shown(/account \(text; required\)[^]*> /)
    run.press('mine\r')
    await run.shown(/limit \(whole number; default: 5\)[^]*> /)
    run.press('7\r')
    await run.shown(/✓ answered[^]*"n":2\}[^]*\[y\] allow/)
    run.press('y')
    await run.shown(/✓ answered[^]*asks: Which account[^]*\[y\] answer/)
    const [waiting] = (await desk.command(['approve', '--json'])).json
    const session = String(waiting?.['sessionId'])
    const listed = await desk.command(['approve'])
    assert.match(
      listed.lines.join('\n'),
      /its server asks: Which account\?[^]*account \(text; required\)[^]*--value account=…/,
    )
    const missing = await desk.command(['approve', session])
    assert.deepEqual([missing.code, /The question needs account/.test(missing.stderr)], [2, true])
    const given = await desk.command(['approve', session, '--value', 'account=theirs'])
    assert.equal(given.code, 0, given.stderr)
    await run.shown(/all done/)
    assert.equal(await run.code, 0, run.text())
    const accepted = (content: object): string => `acted ${JSON.stringify({ action: 'accept', content })}`
    assert.deepEqual(
      good.lines().filter((line) => line.startsWith('acted')),
      [accepted({ account: 'mine', limit: 7 }), accepted({ account: 'theirs', limit: 5 })],
    )
  },
)

test(
  'attach after kill -9 of the daemon ends the wait for an answer that its server cannot get any more',
  LIMIT,
  async () => {
    await using desk = await Desk.start([act(1), say('all done')])
    const good = badServer(desk.folder, 'asks')
    desk.config(`${table('good', good.config)}${ONLY}`)
    const { json } = await desk.command(['run', '--detach', '--json', 'go'])
    const session = String(json.at(-1)?.['sessionId'])
    const waiting = async (): Promise<string> => JSON.stringify((await desk.command(['approve', '--json'])).json)
    await eventually('it waits', async () => (await waiting()).includes('mcp__good__act'))
    assert.equal((await desk.command(['approve', session])).code, 0)
    await eventually('it asks', async () => (await waiting()).includes('Which account'))
    process.kill(desk.daemon().pid, 'SIGKILL')
    const attached = await desk.command(['attach', session, '--json'])
    const outcomes = attached.json.flatMap(({ type, outcome }) => (type === 'tool-result' ? [outcome] : []))
    assert.deepEqual([attached.code, outcomes, good.ran('act')], [0, ['unknown'], 1], attached.stderr)
  },
)

test(
  'at a terminal, Ctrl-C leaves the question for later: exit 4, and the call has not run',
  { ...LIMIT, skip: !hasTerminals },
  async () => {
    await using desk = await Desk.start([act(1), say('all done')])
    const good = badServer(desk.folder)
    desk.config(`${table('good', good.config)}${ONLY}[model]\nbaseUrl = "${desk.model.url}"\nname = "any"\n`)
    const run = desk.place.startInTerminal(['run', 'go'])
    await run.shown(/\[y\] allow/)
    run.press('\u0003')
    assert.equal(await run.code, 4, run.text())
    assert.equal(good.ran('act'), 0)
  },
)

test(
  'a turn at a server that asks for a login waits and names the command; the login continues it, and its tokens stay private',
  LIMIT,
  async () => {
    const oauth = await startOauthMcp()
    await using desk = await Desk.start([ask([{ tool: 'mcp__s__act', arguments: {} }]), say('all done')])
    try {
      desk.config(`[mcp.s]\nurl = "${oauth.url}"\n[policy]\napprove = "never"\n[run]\ntools = ["mcp__s"]\n`)
      const browser = desk.write(
        join(desk.place.home, 'browser'),
        `#!/bin/sh\nexec '${process.execPath}' -e 'fetch(process.argv[1]).then((page) => page.text())' "$1"\n`,
        0o755,
      )
      const up = desk.start(['up', '--json', '--port', '0', ...serverIsolation], {
        env: { BREAKFALL_LOG: 'debug' },
      })
      await up.listening()
      const run = await desk.run()
      endedWith(run, 4, 'parked', 'mcp_auth_failed')
      assert.match(JSON.stringify(run.result), /breakfall mcp login s/)
      assert.deepEqual(oauth.seen, [], 'the turn has not asked for a token')
      const login = await desk.command(['mcp', 'login', 's'], { env: { BROWSER: browser } })
      assert.equal(login.code, 0, login.stderr)
      const rest = await desk.command(['run', '--session', String(run.result.sessionId), '--json'])
      assert.equal(rest.json.at(-1)?.['text'], 'all done', rest.stderr)
      assert.equal(oauth.mcp.seen.filter((method) => method === 'tools/call').length, 1)
      const exported = await desk.command(['export', String(run.result.sessionId)])
      const seen = [...up.lines, up.stderr, exported.lines.join('\n'), login.stderr, login.lines.join('\n')].join('\n')
      for (const secret of oauth.secrets) {
        assert.ok(!seen.includes(secret), 'a token in a log, an export or an output')
        for (const file of filesWith(desk.place.home, secret)) assert.match(file, /mcp-logins\/s\.json$/)
      }
      const out = await desk.command(['mcp', 'logout', 's'])
      assert.equal(out.code, 0, out.stderr)
      assert.deepEqual(filesWith(desk.place.home, oauth.secrets.at(-1) ?? ''), [])
      assert.match(out.lines.join('\n'), /forgot the login at s, and its server revoked the tokens/)
      assert.deepEqual(oauth.seen.slice(-2), ['revoke refresh_token', 'revoke access_token'])
    } finally {
      await oauth.close()
    }
  },
)
