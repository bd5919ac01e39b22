import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { describe, it, type TestContext } from 'node:test'
import { sweepOrphans } from '../../src/index.ts'
import { type ProcessEntry, readProcess } from '../../src/platform.ts'
import { livingProcesses, SUPERVISOR_MARK } from '../../src/process-table.ts'
import { eventually, isAlive, program } from '../child-fixture.ts'

const LINUX = { skip: process.platform === 'linux' ? false : 'needs /proc' }

type Supervising = {
  readonly main: ChildProcess
  readonly over: Promise<unknown>
  readonly pids: readonly number[]
  /** All of them at one moment, including short-lived ones. */
  readonly family: readonly ProcessEntry[]
  readonly reaper: ProcessEntry
}

/** A supervisor in a separate process, its three children, their grandchildren and its reaper. */
async function supervisor(
  t: TestContext,
  how: string,
  extra: readonly string[] = [],
  options: { uid?: number } = {},
): Promise<Supervising> {
  const main = spawn(process.execPath, [program('supervises-and-is-killed.ts'), how, ...extra], {
    stdio: ['pipe', 'pipe', 'ignore'],
    ...options,
  })
  t.after(() => main.kill('SIGKILL'))
  const over = new Promise((resolve) => main.once('exit', resolve))
  const said = await new Promise<string>((resolve) => main.stdout?.once('data', (chunk) => resolve(String(chunk))))
  const { pids } = JSON.parse(said) as { pids: number[] }
  const marks = new Set(pids.map((pid) => markOf(pid)).filter((mark) => mark !== undefined))
  const family = livingProcesses().filter((entry) => marks.has(markOf(entry.pid) ?? ''))
  const reaper = livingProcesses().find(
    (entry) => commandOf(entry.pid).includes('breakfall-reaper') && entry.ppid === main.pid,
  )
  assert.ok(family.length >= 5, `three children and two grandchildren at least, not ${family.length}`)
  assert.ok(reaper !== undefined)
  return { main, over, pids, family, reaper }
}

function markOf(pid: number): string | undefined {
  try {
    return new RegExp(`${SUPERVISOR_MARK}=([^\\0]+)`).exec(readFileSync(`/proc/${pid}/environ`, 'latin1'))?.[1]
  } catch {
    return undefined // gone, or not ours
  }
}

function commandOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/cmdline`, 'latin1')
  } catch {
    return '' // gone
  }
}

const gone = (family: readonly ProcessEntry[]): boolean =>
  family.every((entry) => readProcess(entry.pid)?.startTime !== entry.startTime || !isAlive(entry.pid))

// Each test waits for its own family; the waits take most of the time.
describe('when the supervisor itself ends', { ...LINUX, concurrency: 3 }, () => {
  for (const signal of ['SIGKILL', 'SIGTERM', 'SIGINT'] as const) {
    it(`by ${signal}, nothing it started is alive five seconds later`, async (t) => {
      const { main, over, family, reaper } = await supervisor(t, 'wait')
      main.kill(signal)
      await over
      await eventually(() => gone(family), 'the end of the family', 60_000)
      await eventually(() => !isAlive(reaper.pid), 'the end of the reaper')
    })
  }

  it(
    'as an unprivileged user, the same',
    { skip: process.getuid?.() === 0 ? false : 'is run as root only' },
    async (t) => {
      const { main, over, family } = await supervisor(t, 'wait', [], { uid: 65_534 })
      main.kill('SIGKILL')
      await over
      await eventually(() => gone(family), 'the end of the family', 60_000)
    },
  )

  it('after its reaper was killed again and again, the same: a new one starts each time', async (t) => {
    const { main, over, family, reaper } = await supervisor(t, 'wait')
    let last: ProcessEntry = reaper
    for (let kills = 0; kills < 7; kills += 1) {
      process.kill(last.pid, 'SIGKILL')
      const next = (): ProcessEntry | undefined =>
        livingProcesses().find(
          ({ pid, ppid }) => ppid === main.pid && pid !== last.pid && commandOf(pid).includes('breakfall-reaper'),
        )
      await eventually(() => next() !== undefined, 'a new reaper')
      last = next() ?? assert.fail('it has gone already')
    }
    main.kill('SIGKILL')
    await over
    await eventually(() => gone(family), 'the end of the family', 60_000)
  })

  for (const how of ['throw', 'exit']) {
    it(`by ${how === 'throw' ? 'an uncaught exception' : 'a plain exit'}, the same`, async (t) => {
      const { main, over, family } = await supervisor(t, how)
      main.stdin?.write('\n')
      await over
      await eventually(() => gone(family), 'the end of the family', 60_000)
    })
  }

  it('together with its reaper, the next start ends what is left, and nothing else', async (t) => {
    const stateDir = mkdtempSync(path.join(tmpdir(), 'breakfall-orphans-'))
    const bystander = spawn('sleep', ['60'], { stdio: 'ignore' })
    try {
      const { main, over, family, reaper } = await supervisor(t, 'wait', [stateDir])
      process.kill(reaper.pid, 'SIGSTOP') // it cannot act, and is not restarted either
      main.kill('SIGKILL')
      await over
      process.kill(reaper.pid, 'SIGKILL')
      assert.ok(!gone(family), 'they have survived')
      pretendThatPidWasReused(stateDir, bystander.pid ?? 0)
      const swept = sweepOrphans(stateDir)
      assert.ok(swept.length >= 5)
      assert.ok(!swept.some(({ pid }) => pid === bystander.pid))
      await eventually(() => gone(family), 'the end of the family')
      assert.ok(isAlive(bystander.pid ?? 0), 'a process that has the pid of a former child is not touched')
      assert.deepEqual(readdirSync(stateDir), [])
    } finally {
      bystander.kill('SIGKILL')
      rmSync(stateDir, { recursive: true, force: true })
    }
  })

  it('records of a living supervisor are left alone, and damaged ones are removed', async (t) => {
    const stateDir = mkdtempSync(path.join(tmpdir(), 'breakfall-orphans-'))
    const { main, over, pids, family } = await supervisor(t, 'wait', [stateDir])
    writeFileSync(path.join(stateDir, 'supervised-damaged.json'), '{"supervisorId":"')
    assert.deepEqual(sweepOrphans(stateDir), [])
    assert.equal(readdirSync(stateDir).length, 1)
    assert.ok(pids.every(isAlive))
    main.kill('SIGKILL')
    await over
    await eventually(() => gone(family), 'the end of the family', 60_000)
    rmSync(stateDir, { recursive: true, force: true })
  })
})

/** Adds a child to the record that once had the bystander's pid. */
function pretendThatPidWasReused(stateDir: string, pid: number): void {
  const [name = ''] = readdirSync(stateDir)
  const file = path.join(stateDir, name)
  const note = JSON.parse(readFileSync(file, 'utf8')) as { children: { pid: number; startTime: number }[] }
  note.children.push({ pid, startTime: (readProcess(pid)?.startTime ?? 0) - 1 })
  writeFileSync(file, JSON.stringify(note))
}
