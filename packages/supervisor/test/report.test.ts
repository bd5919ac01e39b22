import assert from 'node:assert/strict'
import { describe, it } from 'node:test'
import { collectDiagnostics } from '../src/index.ts'
import { type ExitFacts, faultOf, judge, NO_FACTS } from '../src/report.ts'

const MINUTE = 60_000

function facts(more: Partial<ExitFacts>): ExitFacts {
  return {
    ...NO_FACTS,
    childId: 'c',
    runId: 'r',
    name: 'model',
    command: 'llama-server',
    phase: 'ready',
    startedAt: '2026-11-15T12:00:00.000Z',
    uptimeMs: 41_000,
    nowMs: 10 * MINUTE,
    ...more,
  }
}

function printed(atMs: number, ...lines: readonly string[]): ExitFacts['diagnoses'] {
  const collector = collectDiagnostics({ now: () => atMs })
  for (const line of lines) collector.line(line)
  return collector.diagnoses()
}

describe('the report of an exit', () => {
  it('blames memory for a SIGKILL only if the kernel counted an OOM kill', () => {
    const killed = facts({ rawSignal: 'SIGKILL', oomKills: 1 })
    assert.equal(judge(killed).kind, 'oom_killed')
    assert.equal(judge(killed).diagnoses[0]?.id, 'exit.oom_killed')
    assert.equal(judge({ ...killed, oomKills: 0 }).kind, 'signaled')
    assert.equal(judge({ ...killed, endedBy: 'stop' }).kind, 'killed_by_us')
    assert.equal(judge({ ...killed, rawSignal: 'SIGTERM' }).kind, 'signaled')
  })

  it('ranks a cause that the child printed above the signal, and the signal above a consequence', () => {
    const diagnoses = printed(10 * MINUTE, 'Worker proc VllmWorker-0 died unexpectedly', 'CUDA error: out of memory')
    const ids = judge(facts({ rawSignal: 'SIGSEGV', diagnoses })).diagnoses.map((entry) => entry.id)
    assert.deepEqual(ids, ['llamacpp.cuda_oom_runtime', 'exit.segfault', 'vllm.worker_proc_died'])
  })

  it('does not blame a cause that was printed long before', () => {
    const diagnoses = printed(MINUTE, "Error: Cannot find module 'optional-thing'")
    const ids = judge(facts({ rawSignal: 'SIGKILL', diagnoses })).diagnoses.map((entry) => entry.id)
    assert.deepEqual(ids, ['exit.killed', 'node.cannot_find_module'])
  })

  it('treats an unrequested exit 0 as a failure, unless the child is a oneshot', () => {
    assert.equal(judge(facts({ rawCode: 0 })).expected, false)
    assert.equal(judge(facts({ rawCode: 0, oneshot: true })).expected, true)
    assert.equal(judge(facts({ rawCode: 1, oneshot: true })).expected, false)
    assert.equal(judge(facts({ rawCode: 1, endedBy: 'stop' })).expected, true)
  })

  it('says what happened, after how long, why, and what happens next, in one line', () => {
    const report = judge(
      facts({ rawSignal: 'SIGABRT', phase: 'busy', diagnoses: printed(10 * MINUTE, 'CUDA error: out of memory') }),
    )
    const restart = { decision: 'restart', delayMs: 400, attempt: 1, windowCount: 1, because: 'crashed' } as const
    assert.equal(
      faultOf({ ...report, restart }).error,
      'model was ended by SIGABRT (it aborted itself) in the middle of a request after 41 s: The GPU ran out of memory during a request. Lower --ctx-size / --parallel, offload fewer layers (-ngl), or use KV-cache quantisation. It restarts in 400 ms.',
    )
  })

  it('falls back to the termination error, and then to the last line of stderr', () => {
    const plain = facts({ rawCode: 3, stderrTail: ['first', 'boom at layer 3', ''] })
    assert.match(faultOf(judge(plain)).error, /exited with code 3 after 41 s; its last line was: boom at layer 3\.$/)
    const words = { name: 'RangeError', message: 'layer 7', stack: null }
    assert.match(faultOf(judge({ ...plain, terminationError: words })).error, /: RangeError: layer 7\.$/)
  })

  it('of a start uses the line that explains it, not the last one and not a known consequence', () => {
    const consequence = 'main: exiting due to model loading error'
    const tail = ["gguf_init_from_file: failed to open GGUF file 'x.gguf' (No such file or directory)", consequence]
    const start = facts({
      rawCode: 1,
      phase: 'starting',
      stderrTail: tail,
      diagnoses: printed(10 * MINUTE, consequence),
    })
    assert.match(
      faultOf(judge(start)).error,
      /while it was starting after 41 s: gguf_init_from_file: failed to open GGUF file 'x\.gguf' \(No such file/,
    )
    const alone = { ...start, stderrTail: [consequence] }
    assert.match(faultOf(judge(alone)).error, /after 41 s: The model could not be loaded\.$/)
  })

  it('exposes only the fields of a diagnostic', () => {
    const report = judge(facts({ rawCode: 1, diagnoses: printed(10 * MINUTE, 'CUDA error: out of memory') }))
    const [diagnostic] = faultOf(report).report.diagnostics
    const fields = ['id', 'rank', 'message', 'advice', 'retry', 'evidence', 'count']
    assert.deepEqual(Object.keys(diagnostic ?? {}).toSorted(), fields.toSorted())
  })

  it('allows a restart if the machine was merely full', () => {
    const full = judge(facts({ phase: 'spawn', startReason: 'resources', startDetail: 'no room (EAGAIN)' }))
    assert.equal(full.diagnoses[0]?.retry, 'after_backoff')
    const gone = judge(facts({ phase: 'spawn', startReason: 'not_found', startDetail: 'gone' }))
    assert.equal(gone.diagnoses[0]?.retry, 'never')
  })
})
