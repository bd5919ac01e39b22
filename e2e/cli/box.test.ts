/** What a run brings into its box, and what stays out: project instructions, variables, folders, secrets, the isolation level. */
import assert from 'node:assert/strict'
import { readlinkSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { test } from 'node:test'
import { LIMIT } from '../../test/kit/wait.ts'
import { ask, bash, byProgress, say } from '../answers.ts'
import { hasSandbox } from '../breakfall.ts'
import { Desk, ofType } from './desk.ts'

const SECRET = 'canary-7d1c9a4be2f04d55'
const skip = hasSandbox ? false : 'needs bubblewrap'

const resultsOf = (run: Parameters<typeof ofType>[0]): string =>
  ofType(run, 'tool-result')
    .map((event) => String(event['text']))
    .join('\n')

test(
  'a run brings AGENTS.md, --env, passEnv and --mount into its turn, and no secret of the user',
  { ...LIMIT, skip },
  async () => {
    const script = `echo "[$GIVEN] [$PASSED_TOKEN] [$FOLDER] [$OPENAI_API_KEY$WIRE_KEY$AWS_SECRET_ACCESS_KEY]"; cat ~/.ssh/id_rsa ~/.aws/credentials ~/.npmrc ~/.cargo/credentials.toml ~/.fly/config.yml; env; cat "DATA/file"; touch "DATA/new"`
    await using desk = await Desk.start([], {
      'AGENTS.md': 'Tabs, never spaces.\n',
      'breakfall.toml': '[box.env]\nFOLDER = "of the folder"\n',
    })
    const { home } = desk.place
    for (const name of ['.ssh/id_rsa', '.aws/credentials', '.npmrc', '.cargo/credentials.toml', '.fly/config.yml'])
      desk.write(join(home, name), SECRET)
    const data = dirname(desk.write(join(home, 'data', 'file'), 'mounted data\n'))
    desk.config('[box]\npassEnv = ["PASSED_TOKEN", "NOT_SET"]\n\n[agent]\nappend = "Be brief."\n')
    desk.model.script('any', byProgress([ask([bash(script.replaceAll('DATA', data))]), say('done')]))
    const env = { PASSED_TOKEN: 'passed', AWS_SECRET_ACCESS_KEY: SECRET, OPENAI_API_KEY: SECRET }
    const run = await desk.run(['go', '--env', 'GIVEN=given', '--mount', data], { env })
    assert.equal(run.code, 0, run.stderr)
    const said = resultsOf(run)
    assert.match(said, /\[given\] \[passed\] \[of the folder\] \[\]/)
    assert.match(said, /mounted data/)
    assert.match(said, /Read-only file system/)
    assert.ok(!said.includes(SECRET), said)
    assert.match(run.stderr, /passEnv names NOT_SET, which is not set here/)
    const [start] = ofType(run, 'turn-start')
    assert.match(JSON.stringify(start?.['instructions']), /"path":"AGENTS\.md","bytes":20/)
    const system = String(start?.['system'])
    assert.match(system, /Tabs, never spaces\./)
    assert.ok(system.includes(`Commands start in ${desk.folder}`) && system.endsWith('Be brief.'), system)
    assert.match(system, /Network: none/)
    assert.match(system, /Found on the PATH: .*git/)

    const text = await desk.command(['run', 'again', '--system-prompt', 'You are terse.', '--mount', '/'])
    assert.equal(text.code, 2, text.stderr)
    assert.match(text.stderr, /--mount \/ is refused: it would show the box your whole system/)
    const shown = await desk.command(['run', 'again', '--system-prompt', 'You are terse.'])
    assert.equal(shown.code, 0, shown.stderr)
    assert.match(shown.stderr, /^instructions: AGENTS\.md \(20 bytes\)$/m)
  },
)

test(
  "a folder's breakfall.toml may set variables, and neither folders, the network nor the user's variables",
  LIMIT,
  async () => {
    await using desk = await Desk.start()
    for (const line of ['passEnv = ["HOME"]', 'mounts = ["/srv"]', 'network = "host"', 'home = "real"']) {
      desk.write('breakfall.toml', `[box]\n${line}\n`)
      const { code, stderr } = await desk.command(['run', 'x'])
      assert.equal(code, 2)
      assert.match(stderr, /box\.\w+ cannot be set by a folder's file/)
    }
  },
)

test(
  'without a terminal, a call that needs an approval ends the run with 4, and approve continues the turn',
  { ...LIMIT, skip },
  async () => {
    const harmless = '#'.repeat(3_000)
    const command = `true ${harmless}\necho ran >> made ${harmless}\ncat made`
    await using desk = await Desk.start(byProgress([ask([bash(command)]), say('done')]))
    const waiting = await desk.run(['go', '--isolation', 'process'])
    assert.equal(waiting.code, 4, waiting.stderr)
    assert.equal(waiting.result.outcome, 'parked')
    const listed = await desk.command(['approve'])
    assert.match(listed.lines.join('\n'), /true #+\n⟦ 4,053 characters are not shown here ⟧\n#+\\ncat made"\}\n/)
    assert.doesNotMatch(listed.lines.join('\n'), /echo ran/)
    const [shown = ''] = /breakfall approve \S+ --show/.exec(listed.lines.join('\n')) ?? []
    const whole = await desk.command(shown.split(' ').slice(1))
    assert.ok(whole.lines.join('\n').includes(`bash ${JSON.stringify({ command })}`))
    const [id = ''] = /breakfall approve (\S+)/.exec(listed.lines.join('\n'))?.slice(1) ?? []
    const approved = await desk.command(['approve', id])
    assert.equal(approved.code, 0, approved.stderr + approved.lines.join('\n'))
    const text = approved.lines.join('\n')
    assert.match(text, /✓ approved[^]*ran[^]*done[^]*finished in 2 steps, no faults/)
    assert.doesNotMatch(text, /needs your approval|survived/, 'it is not asked again, and a question is no fault')
  },
)

test('--isolation process is honoured, or refused with a sentence', { ...LIMIT, skip }, async () => {
  await using desk = await Desk.start(byProgress([ask([bash('readlink /proc/self/ns/pid')]), say('done')]))
  const outside = await desk.run(['go', '--isolation', 'process', '--approve', 'never'])
  assert.equal(outside.code, 0, outside.stderr)
  assert.ok(resultsOf(outside).includes(readlinkSync('/proc/self/ns/pid')), 'no sandbox')
  const inside = await desk.run(['go'])
  assert.ok(!resultsOf(inside).includes(readlinkSync('/proc/self/ns/pid')), 'a sandbox')
  const continued = await desk.command(['run', '--continue', 'more', '--isolation', 'process'])
  assert.equal(continued.code, 2)
  assert.match(continued.stderr, /--isolation sets up a new session/)
})

test(
  '--memory-mb sets the memory of a new box, and a command that needs more says why it was killed',
  LIMIT,
  async (t) => {
    await using desk = await Desk.start(
      byProgress([ask([bash('x=$(head -c 300000000 /dev/zero | tr "\\0" a)')]), say('ok')]),
    )
    const wrong = await desk.command(['run', 'go', '--memory-mb', '5'])
    assert.equal(wrong.code, 2)
    assert.match(wrong.stderr, /flag --memory-mb: limits\.memoryMb must be an integer from 16 to 65536/)
    const continued = await desk.command(['run', '--continue', '--memory-mb', '64'])
    assert.equal(continued.code, 2)
    assert.match(continued.stderr, /--memory-mb sets up a new session/)
    if (!hasSandbox || process.getuid?.() !== 0) return t.skip('needs a memory controller')
    const { code, lines } = await desk.command(['run', 'go', '--memory-mb', '64'])
    assert.equal(code, 0)
    assert.match(
      lines.join('\n'),
      /└ exit 137: the kernel killed 1 process .* ran out of memory; raise limits\.memoryMb/,
    )
  },
)
