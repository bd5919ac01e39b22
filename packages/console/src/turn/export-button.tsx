/** Saves a session as a bundle: everything, or without its texts. */
import type { VNode } from 'preact'
import { useState } from 'preact/hooks'
import { exportSession } from '@breakfall/client/internal'
import { daemon } from '../link/api.ts'
import { sentenceOf } from '../text/reveal.ts'
import { saveAs } from './output.tsx'

export function ExportButton({ sessionId }: { readonly sessionId: string }): VNode {
  const [isOpen, setOpen] = useState(false)
  const [problem, setProblem] = useState('')
  const save = async (redact: boolean): Promise<void> => {
    try {
      const response = await exportSession(daemon, sessionId, redact ? { redact: 'text' } : {})
      saveAs(await response.blob(), `${sessionId}${redact ? '-redacted' : ''}.ndjson`)
      setOpen(false)
      setProblem('')
    } catch (error) {
      setProblem(sentenceOf(error))
    }
  }
  if (!isOpen)
    return (
      <button type="button" class="quiet" aria-expanded="false" onClick={() => setOpen(true)}>
        export
      </button>
    )
  return (
    <span class="row" role="group" aria-label="Export this session">
      <button type="button" onClick={() => void save(false)}>
        Everything
      </button>
      <button type="button" onClick={() => void save(true)}>
        Without texts
      </button>
      <button type="button" class="quiet" aria-label="Do not export" onClick={() => setOpen(false)}>
        ✕
      </button>
      {problem === '' ? null : <span role="status">{problem}</span>}
    </span>
  )
}
