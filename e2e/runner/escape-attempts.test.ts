/** Refusals that name the mistake, and boxes that try to reach the host through their workspace. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sharedRunner } from './shared-runner.ts'
import { assertProblem, BOXES, type Json } from './runner-process.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const { runner, box, place, folder, needsSandbox } = await sharedRunner()
const refused = (answer: Json, what: string): void => {
  assert.ok(answer.status >= 400 && answer.status < 500, `${what}: ${answer.status} ${answer.text}`)
}
test('a new exec requested as a stream is 201', LIMIT, async () => {
  await using stream = await runner.stream('POST', `${place}/exec`, { json: { execId: 'sse', shell: 'true' } })
  assert.equal(stream.status, 201)
})
test('416 contains the length', LIMIT, async () => {
  await runner.run(box, { execId: 'range', command: ['printf', '0123456789'] })
  const answer = await runner.get(`${place}/execs/range/output/stdout`, { headers: { range: 'bytes=10-' } })
  assert.equal(answer.headers['content-range'], 'bytes */10')
})

test('an unknown field in stop, start or kill is refused by name, and nothing changes', LIMIT, async () => {
  const box = await runner.box()
  await runner.post(`${BOXES}/${box}/exec`, { execId: 'e', shell: 'cat', stdin: 'pipe' })
  for (const path of ['stop', 'start', 'execs/e/kill']) {
    const problem = assertProblem(await runner.post(`${BOXES}/${box}/${path}`, { force: 1 }), 400, 'invalid_request')
    assert.equal(problem.errors[0].field, 'force')
  }
  assert.equal((await runner.get(`${BOXES}/${box}`)).json.state, 'running')
  assert.equal((await runner.get(`${BOXES}/${box}/execs/e`)).json.exit, null)
})

test("commands can start in a box's temporary folders and run programs from them", LIMIT, async (t) => {
  if (runner.level !== 'bwrap') return t.skip('level process uses the machine’s folders')
  for (const folder of ['/tmp', '/var/tmp', '/dev/shm']) {
    const started = await runner.post(`${place}/exec`, { command: ['pwd'], cwd: folder })
    assert.equal(started.status, 201, `${folder}: ${started.text}`)
    await runner.wait(box, started.json.execId)
    assert.equal(await runner.output(box, started.json.execId), `${folder}\n`)
  }
})

test('a box cannot create git hooks or settings that do not exist yet', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const project = folder('allowed/young')
  folder('allowed/young/.git')
  const box = await runner.box({ workspace: project })
  for (const attack of ['mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit', 'echo evil > .git/config'])
    await runner.run(box, { shell: `(${attack}) 2>/dev/null` })
  for (const path of ['.git/hooks/pre-commit', '.git/config']) {
    const there = existsSync(join(project, path)) ? readFileSync(join(project, path), 'utf8') : ''
    assert.equal(there, '', `${path} is on the host`)
  }
})

test('the .git file of a worktree is protected like a .git folder', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const project = folder('allowed/worktree')
  writeFileSync(join(project, '.git'), 'gitdir: /elsewhere/.git/worktrees/one\n')
  const box = await runner.box({ workspace: project })
  await runner.run(box, { shell: 'echo "gitdir: evil" > .git; rm -f .git; mv .git old; mkdir -p .git/hooks' })
  assert.equal(readFileSync(join(project, '.git'), 'utf8'), 'gitdir: /elsewhere/.git/worktrees/one\n')
})

test('a workspace that another box replaced with a link leads nowhere', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const wide = folder('allowed/wide')
  folder('allowed/wide/narrow')
  folder('allowed/wide/deep/ssl')
  const [outer, inner, deep] = [
    await runner.box({ workspace: wide }),
    await runner.box({ workspace: join(wide, 'narrow') }),
    await runner.box({ workspace: join(wide, 'deep/ssl') }),
  ]
  await runner.run(outer, { shell: 'rmdir narrow; ln -s /etc narrow; mv deep old; ln -s /etc deep' })
  for (const box of [inner, deep]) {
    const started = await runner.post(`${BOXES}/${box}/exec`, { shell: 'ls -A' })
    if (started.status === 201) {
      await runner.wait(box, started.json.execId)
      assert.equal(await runner.output(box, started.json.execId), '', 'the box runs in a folder of the host')
    } else assert.ok(started.status >= 400 && started.status < 500, started.text)
    const listed = await runner.get(`${BOXES}/${box}/files`)
    assert.deepEqual(listed.json.files ?? [], [])
  }
})

test('a glob built to be slow does not slow down the runner', LIMIT, async () => {
  const own = await runner.box()
  await runner.put(`${BOXES}/${own}/files/${'a'.repeat(200)}`, 'x')
  for (const glob of [
    `${'*a'.repeat(30)}b`,
    `${'**/'.repeat(30)}b`,
    `${'*'.repeat(500)}b`,
    '{a,b}'.repeat(30),
    '[a-'.repeat(50),
    '(a+)+$',
  ]) {
    const answer = await runner.get(`${BOXES}/${own}/files?glob=${encodeURIComponent(glob)}`)
    if (answer.status === 200) assert.deepEqual(answer.json.files, [])
    else refused(answer, glob)
  }
})

test('a command that cannot run names its box and its folder', LIMIT, async () => {
  const answer = await runner.post(`${place}/exec`, { command: ['true'], cwd: 'missing' })
  const problem = assertProblem(answer, 422, 'spawn_failed')
  assert.equal(problem.boxId, box)
  assert.match(problem.detail, /^Cannot run the command true \(the box has no folder .*missing\)/)
  const device = await runner.post(`${place}/exec`, { command: ['/dev/null'] })
  assert.equal(assertProblem(device, 422, 'spawn_failed').reason, 'not_executable')
})

test('a made-up cursor is 400 and named, and a real cursor continues the list', LIMIT, async () => {
  await runner.box()
  for (const path of [BOXES, `${place}/execs`, `${place}/files`]) {
    const problem = assertProblem(await runner.get(`${path}?cursor=zzz`), 400, 'invalid_request')
    assert.equal(problem.errors[0].field, 'cursor')
  }
  const first = (await runner.get(`${BOXES}?limit=1`)).json
  const second = (await runner.get(`${BOXES}?limit=1&cursor=${encodeURIComponent(first.next)}`)).json
  assert.equal(second.boxes.length, 1)
  assert.notEqual(second.boxes[0].id, first.boxes[0].id)
})
