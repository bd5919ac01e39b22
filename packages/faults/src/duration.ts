/** A duration for people. */

/** 420 ms, 3.5 s, 4 min 5 s, 2 h 10 min. */
export function duration(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`
  const seconds = ms / 1000
  if (seconds < 10) return `${Number(seconds.toFixed(1))} s`
  if (seconds < 120) return `${Math.round(seconds)} s`
  const minutes = Math.floor(seconds / 60)
  if (minutes < 120) return seconds % 60 >= 1 ? `${minutes} min ${Math.floor(seconds % 60)} s` : `${minutes} min`
  return minutes % 60 === 0 ? `${minutes / 60} h` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`
}
