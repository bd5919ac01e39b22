/** What a box can and cannot reach, tested from inside it over raw HTTP. */
import assert from 'node:assert/strict'
import { existsSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { sharedRunner } from './shared-runner.ts'
import { assertProblem, BOXES, WireRunner } from './runner-process.ts'
import { httpServer } from '../../test/kit/http-server.ts'
import { LIMIT } from '../../test/kit/wait.ts'

const { runner, home, allowed, folder, needsSandbox } = await sharedRunner({
  env: { SECRET_OF_THE_RUNNER: 'swordfish', AWS_SECRET_ACCESS_KEY: 'swordfish', MODEL_API_KEY: 'swordfish' },
})

test('a box cannot read the machine’s secrets, the runner’s state, its token or other boxes', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const [box, other] = [await runner.box(), await runner.box()]
  await runner.put(`${BOXES}/${other}/files/private`, 'of the other')
  for (const path of [
    '/etc/shadow',
    runner.tokenFile,
    runner.stateDir,
    join(runner.stateDir, 'runner.json'),
    '/root/.ssh',
    home,
  ]) {
    const { execId, exit } = await runner.run(box, { command: ['ls', '-la', path] })
    const found = await runner.output(box, execId)
    const read = await runner.run(box, { command: ['cat', path] })
    assert.notEqual(read.exit.code, 0, path)
    assert.ok(exit.code !== 0 || path === '/etc/shadow', `${path} is seen: ${found}`)
  }
  const search = await runner.run(box, {
    shell: 'grep -rsl "of the other" / --include=private --exclude-dir=proc --exclude-dir=sys --exclude-dir=usr; true',
  })
  assert.equal(await runner.output(box, search.execId), '')
  assert.equal(await runner.shell(box, 'ls -A'), '')
})

test('a box sees only its own processes and cannot signal others', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const box = await runner.box()
  const commands = await runner.shell(box, 'cat /proc/[0-9]*/cmdline | tr "\\0" " "')
  assert.ok(!commands.includes('main.ts'), commands)
  assert.ok(!commands.includes(runner.tokenFile), commands)
  const count = await runner.shell(box, 'ls -d /proc/[0-9]* | wc -l')
  assert.ok(Number(count) < 10, count)
  const { exit } = await runner.run(box, { shell: `kill -0 ${String(runner.program.child.pid)}` })
  assert.notEqual(exit.code, 0)
  const environ = await runner.shell(box, 'cat /proc/*/environ | tr "\\0" "\\n"')
  assert.ok(!environ.includes('swordfish'))
})

test('the runner’s environment stays outside, at every level', LIMIT, async () => {
  const box = await runner.box()
  const env = await runner.shell(box, 'env')
  assert.ok(!env.includes('swordfish'), env)
  assert.ok(!env.includes(runner.token), env)
  assert.match(env, /^PATH=/m)
})

test('without network a box reaches nothing, not even loopback, and with network host it does', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  await using server = await httpServer((_, response) => response.end('reached'))
  const { port } = server
  const script = `bash -c 'exec 3<>/dev/tcp/127.0.0.1/${port} && printf "GET / HTTP/1.0\\r\\n\\r\\n" >&3 && cat <&3' 2>/dev/null || echo cut off`
  const none = await runner.box()
  assert.equal(await runner.shell(none, script), 'cut off\n')
  assert.equal((await runner.shell(none, 'tail -n +3 /proc/net/dev | cut -d: -f1')).trim(), 'lo')
  const host = await runner.box({ network: 'host' })
  assert.match(await runner.shell(host, script), /reached/)
})

test('a box cannot gain privileges, mount, or write outside its workspace and temporary folder', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const box = await runner.box()
  assert.match(await runner.shell(box, 'grep CapEff /proc/self/status'), /CapEff:\s+0000000000000000/)
  assert.match(await runner.shell(box, 'grep NoNewPrivs /proc/self/status'), /NoNewPrivs:\s+1/)
  for (const shell of [
    'mount -t tmpfs none /mnt',
    'echo x > /etc/new',
    'echo x > /usr/bin/new',
    'echo x > /usr/new',
    'echo x > /opt/new',
    'chroot / true',
    'mknod disk b 8 0',
    'test -w /proc/sys/kernel/panic', // asks only: a write that got through would change this machine
    'echo x > /sys/kernel/mm/x',
  ])
    assert.notEqual((await runner.run(box, { shell: `${shell} 2>/dev/null` })).exit.code, 0, shell)
  await runner.run(box, { shell: 'echo mine > /tmp/mine' })
  const other = await runner.box()
  assert.equal(await runner.shell(other, 'cat /tmp/mine 2>/dev/null'), '')
  assert.ok(!existsSync('/tmp/mine'))
})

test('a box can use ordinary tools: a shell, pipes, /dev/null, random bytes, a temporary folder', LIMIT, async () => {
  const box = await runner.box()
  const script =
    'set -e; f=$(mktemp); head -c 10 /dev/urandom > "$f"; wc -c < "$f"; echo lost > /dev/null; id -u > /dev/null; date +%Y > /dev/null; echo ok'
  assert.equal((await runner.shell(box, script)).replaceAll(' ', ''), '10\nok\n')
})

test('a host folder appears at its own path, and its protected files are read-only', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const project = folder('allowed/project')
  folder('allowed/project/.git/hooks')
  writeFileSync(join(project, '.git/config'), '[core]\n')
  writeFileSync(join(project, '.git/hooks/pre-commit'), '#!/bin/sh\n')
  writeFileSync(join(project, 'breakfall.toml'), 'model = "mine"\n')
  const made = await runner.post(BOXES, { workspace: project })
  assert.equal(made.status, 201, made.text)
  assert.deepEqual(made.json.workspace, { kind: 'host', path: project })
  const box: string = made.json.id
  assert.equal(await runner.shell(box, 'pwd; echo new > made-in-box; mkdir .git/objects; echo ok'), `${project}\nok\n`)
  assert.equal(readFileSync(join(project, 'made-in-box'), 'utf8'), 'new\n')
  for (const attack of [
    'echo evil > .git/hooks/pre-commit',
    'echo evil > .git/hooks/post-checkout',
    'rm .git/hooks/pre-commit',
    'mv .git/hooks .git/hooks-old',
    'rm -rf .git/hooks',
    'echo evil >> .git/config',
    'mv .git/config .git/config-old',
    'echo evil > x; mv -f x .git/config',
    'echo evil > breakfall.toml',
    'rm breakfall.toml',
    'echo evil > y; mv -f y breakfall.toml',
    'ln -f y breakfall.toml',
  ])
    assert.notEqual((await runner.run(box, { shell: `(${attack}) 2>/dev/null` })).exit.code, 0, attack)
  assert.equal(readFileSync(join(project, '.git/hooks/pre-commit'), 'utf8'), '#!/bin/sh\n')
  assert.ok(!existsSync(join(project, '.git/hooks/post-checkout')))
  assert.equal(readFileSync(join(project, '.git/config'), 'utf8'), '[core]\n')
  assert.equal(readFileSync(join(project, 'breakfall.toml'), 'utf8'), 'model = "mine"\n')
})

test('replacing .git with another folder does not get a hook onto the host', LIMIT, async (t) => {
  if (!needsSandbox(t)) return
  const project = folder('allowed/moved')
  folder('allowed/moved/.git/hooks')
  writeFileSync(join(project, '.git/config'), '[core]\n')
  const box = await runner.box({ workspace: project })
  await runner.run(box, {
    shell: 'mv .git old; mkdir -p .git/hooks; echo evil > .git/hooks/pre-commit; echo evil > .git/config',
  })
  assert.ok(!existsSync(join(project, '.git/hooks/pre-commit')), 'the hook is on the host')
  assert.equal(readFileSync(join(project, '.git/config'), 'utf8'), '[core]\n')
})

test('a host folder that is not allowed is refused, and nothing is created', LIMIT, async () => {
  const outside = folder('outside')
  folder('allowed-not')
  symlinkSync(outside, join(allowed, 'link-out'))
  writeFileSync(join(allowed, 'a-file'), 'x')
  const before = (await runner.get(BOXES)).json.boxes.length
  for (const workspace of [
    outside,
    join(home, 'allowed-not'),
    join(allowed, 'link-out'),
    `${allowed}/../outside`,
    join(allowed, 'missing'),
    join(allowed, 'a-file'),
    '/',
    runner.stateDir,
    runner.folder,
    '/etc',
  ]) {
    const answer = await runner.post(BOXES, { workspace })
    assert.ok(answer.status >= 400 && answer.status < 500, `${workspace}: ${answer.status}`)
    assertProblem(answer, answer.status, answer.json.category)
  }
  assert.equal((await runner.get(BOXES)).json.boxes.length, before)
})

test('the root, the home folder, the state folder and their parents are refused even if allowed', LIMIT, async () => {
  await using wide = new WireRunner({ flags: ['--allow-isolation', 'process', '--allow-workspace', '/'] })
  await wide.start().catch(() => undefined)
  if (wide.url === '') return // Refused at the start, which is also fine.
  for (const workspace of ['/', join(wide.folder, 'home'), wide.folder, wide.stateDir, join(wide.stateDir, 'boxes')]) {
    const answer = await wide.post(BOXES, { workspace })
    assert.ok(answer.status >= 400 && answer.status < 500, `${workspace}: ${answer.status}`)
  }
  assert.deepEqual((await wide.get(BOXES)).json.boxes, [])
})
