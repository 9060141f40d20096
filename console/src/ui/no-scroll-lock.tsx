import { createElement, type ElementType, type HTMLAttributes } from "react";

interface RemoveScrollProps extends HTMLAttributes<HTMLElement> {
  as?: ElementType;
  allowPinchZoom?: boolean;
}

/**
 * Replaces the package `react-remove-scroll`, which Radix wraps around an open list (vite.config.ts). The package adds
 * `<style>` elements, and the console's Content-Security-Policy blocks them. The page may scroll behind an open list.
 */
export function RemoveScroll({ as = "div", allowPinchZoom: _, ...props }: RemoveScrollProps) {
  return createElement(as, props);
}
