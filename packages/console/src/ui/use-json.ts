/** Data of a screen that is read by a call: again after each reconnect, and whenever its path changes. */
import type { Call } from '@breakfall/client/internal'
import { useEffect, useState } from 'preact/hooks'
import { json, statusOf } from '../link/api.ts'
import { link } from '../link/connection.ts'
import type { Json } from '../fold/shapes.ts'
import { sentenceOf } from '../text/reveal.ts'

export type Loaded = {
  readonly data: Json | null
  readonly problem: string
  readonly isMissing: boolean
  readonly reload: () => void
}

export function useJson(call: Call, everyMs = 0): Loaded {
  const [data, setData] = useState<Json | null>(null)
  const [problem, setProblem] = useState('')
  const [isMissing, setMissing] = useState(false)
  const [round, setRound] = useState(0)
  const isConnected = link.state.value.kind === 'open'
  useEffect(() => {
    const over = new AbortController()
    json(call, over.signal).then(
      (value) => {
        setData(value)
        setProblem('')
        setMissing(false)
      },
      (error: unknown) => {
        if (over.signal.aborted) return
        setProblem(sentenceOf(error))
        setMissing(statusOf(error) === 404)
      },
    )
    return () => over.abort()
  }, [call.path, round, isConnected])
  useEffect(() => {
    if (everyMs === 0 || isMissing) return // asked again after a reconnect: the daemon may be another one
    const timer = setInterval(() => document.visibilityState === 'visible' && setRound((n) => n + 1), everyMs)
    return () => clearInterval(timer)
  }, [everyMs, isMissing])
  return { data, problem, isMissing, reload: () => setRound((n) => n + 1) }
}
