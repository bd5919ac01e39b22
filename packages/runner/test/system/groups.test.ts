/** Real control groups of version 2, as far as this machine offers them. */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, test, type TestContext } from 'node:test'
import { allowBelow, type Cgroups, type Controller, type ExecGroup } from '../../src/isolation/cgroup.ts'
import { findCgroups } from '../../src/isolation/cgroup-find.ts'
import { until, withoutRoot } from '../kit.ts'

const unified = readFileSync('/proc/self/mounts', 'utf8')
  .split('\n')
  .find((line) => line.split(' ')[2] === 'cgroup2')
const skip = withoutRoot || (unified === undefined && 'no unified hierarchy is mounted')
const own = /^0::(.*)$/m.exec(readFileSync('/proc/self/cgroup', 'utf8'))?.[1] ?? '/'
const root = join(unified?.split(' ')[1] ?? '', own)
const offered = skip === false ? readFileSync(join(root, 'cgroup.controllers'), 'utf8').trim().split(' ') : []

/** As on a machine that has only version 2. */
function onlyVersion2(t: TestContext): { cgroups: Cgroups; name: string } {
  const name = `breakfall-test-${process.pid}-${(serial += 1)}`
  const cgroups = findCgroups(name, unified)
  t.after(async () => {
    cgroups.sweep(() => false) // ends what a test has left in them
    await until(
      () => {
        cgroups.closeAll()
        return existsSync(join(root, name))
      },
      (isThere) => !isThere,
    )
  })
  return { cgroups, name }
}
let serial = 0

/** A shell that joins the group, and a child that leaves its session. */
async function fill(t: TestContext, group: ExecGroup): Promise<ChildProcess> {
  const script = 'for f; do echo 0 >"$f" || exit 9; done; setsid sleep 7795 >/dev/null & echo up; read -r word'
  const child = spawn('/bin/sh', ['-c', script, 'sh', ...group.joins], { stdio: ['pipe', 'pipe', 'inherit'] })
  t.after(() => group.kill([]))
  await once(child.stdout, 'data')
  return child
}

describe('control groups of version 2', { skip }, async () => {
  test('contain a whole process tree: it can be listed, killed with exceptions, killed at once, and removed', async (t) => {
    const { cgroups, name } = onlyVersion2(t)
    assert.equal(cgroups.holdsTrees, true)
    cgroups.openBox('box', { memoryMb: null, pids: null, cpus: null })
    const group = cgroups.execGroup('box', 'k1') as ExecGroup
    assert.deepEqual(group.joins, [join(root, name, 'box/k1/cgroup.procs')])
    const first = await fill(t, group)
    const pid = first.pid as number
    await until(
      () => group.processes(),
      (found) => found.length === 2 && found.includes(pid),
    )
    group.kill([pid])
    await until(
      () => group.processes(),
      (found) => found.length === 1 && found[0] === pid,
    )
    assert.equal(first.exitCode ?? first.signalCode, null)
    group.kill([])
    await once(first, 'exit')
    assert.equal(first.signalCode, 'SIGKILL')
    await until(
      () => group.processes().length,
      (left) => left === 0,
    )
    group.remove()
    await cgroups.closeBox('box')
    assert.equal(existsSync(join(root, name, 'box')), false)
  })

  test('are cleaned of what an earlier process left, running or not, except for groups in use', async (t) => {
    const { cgroups, name } = onlyVersion2(t)
    for (const box of ['here', 'gone']) cgroups.openBox(box, { memoryMb: null, pids: null, cpus: null })
    const used = cgroups.execGroup('here', 'used') as ExecGroup
    const left = cgroups.execGroup('here', 'left') as ExecGroup
    cgroups.execGroup('gone', 'empty')
    await fill(t, used)
    const orphan = await fill(t, left)
    cgroups.sweep((box, keeper) => box === 'here' && (keeper === undefined || keeper === 'used'))
    await once(orphan, 'exit')
    const there = (path: string): boolean => existsSync(join(root, name, path))
    await until(
      () => there('here/left') || there('gone/empty'),
      (isThere) => !isThere,
    )
    assert.deepEqual([there('here/used'), used.processes().length], [true, 2])
  })

  test('use only controllers that are offered, and accept their limits', (t) => {
    const { cgroups, name } = onlyVersion2(t)
    const controllers: readonly Controller[] = ['memory', 'pids', 'cpu']
    for (const controller of controllers)
      assert.equal(cgroups.has(controller), offered.includes(controller), controller)
    cgroups.openBox('box', { memoryMb: 64, pids: 20, cpus: 1 })
    const limits = {
      memory: ['memory.max', '67108864\n'],
      pids: ['pids.max', '20\n'],
      cpu: ['cpu.max', '100000 100000\n'],
    }
    for (const controller of controllers.filter((each) => cgroups.has(each))) {
      const [file = '', text] = limits[controller]
      assert.equal(readFileSync(join(root, name, 'box', file), 'utf8'), text)
    }
    t.diagnostic(`offered here: ${offered.join(' ')}`)
  })

  test('delegate an available controller to subgroups', { skip: offered[0] === '' && 'none is offered' }, () => {
    const controller = offered[0] as Controller
    const handed = readFileSync(join(root, 'cgroup.subtree_control'), 'utf8').trim().split(' ')
    const group = join(root, `breakfall-test-${process.pid}-down`)
    mkdirSync(join(group, 'below'), { recursive: true })
    try {
      allowBelow(root, [controller])
      allowBelow(group, [controller])
      assert.equal(readFileSync(join(group, 'below/cgroup.controllers'), 'utf8'), `${controller}\n`)
    } finally {
      rmdirSync(join(group, 'below'))
      rmdirSync(group)
      if (!handed.includes(controller)) writeFileSync(join(root, 'cgroup.subtree_control'), `-${controller}`)
    }
  })
})
