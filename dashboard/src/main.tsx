import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createRoot } from "react-dom/client";
import { App } from "./App";
import { ApiError } from "./api/client";
import { connect } from "./live/sync";
import "uplot/dist/uPlot.min.css";
import "./styles.css";

const client = new QueryClient({
  defaultOptions: {
    queries: {
      // Events keep data fresh; a request is repeated only when one says so.
      staleTime: 30_000,
      gcTime: 120_000,
      refetchOnWindowFocus: false,
      retry: (count, error) => count < 2 && error instanceof ApiError && (error.status === 0 || error.status >= 500),
    },
  },
});

connect(client);
createRoot(document.getElementById("root")!).render(
  <QueryClientProvider client={client}>
    <App />
  </QueryClientProvider>,
);
