/**
 * A browser drops the focus from an element that moves in the document. A list that changes by itself must not take it from the person
 * who is reading it, so the row gets it back.
 */
import { useEffect, useLayoutEffect } from 'preact/hooks'

/** Call it in the component whose render may move rows. */
export function useKeptFocus(selector: string): void {
  useEffect(() => {
    const onFocus = ({ target }: FocusEvent): void => {
      kept = target instanceof HTMLElement && target.matches(selector) ? target : null
    }
    const onPress = (): void => {
      kept = null // a click beside the list means to leave it
    }
    document.addEventListener('focusin', onFocus)
    document.addEventListener('pointerdown', onPress)
    return () => {
      kept = null
      document.removeEventListener('focusin', onFocus)
      document.removeEventListener('pointerdown', onPress)
    }
  }, [selector])
  useLayoutEffect(() => {
    if (kept?.isConnected === true && document.activeElement === document.body) kept.focus({ preventScroll: true })
  })
}

// ---- details ----

let kept: HTMLElement | null = null
