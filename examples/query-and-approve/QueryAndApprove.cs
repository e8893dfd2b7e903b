// Asks what is planned, waits for Enter, and approves all of it; again and again, until its input ends.
//
//     mcs -r:Newtonsoft.Json.dll QueryAndApprove.cs && mono QueryAndApprove.exe [API-VERSION]
//
// (Debian: packages mono-mcs, mono-runtime, libnewtonsoft-json5.0-cil, and -lib:/usr/lib/cli/Newtonsoft.Json-5.0.)
//
// After the published C# sample. Changed, because it could not be compiled, or could not run:
//
// - The `using` lines were missing.
// - `client.GetDocument()` does not exist; it is `GetScheduledEvents()`.
// - `event` is a keyword and cannot be a variable; it is `scheduledEvent`.
// - Approvals had no `Metadata: true`, which every version after 2017-03-01 refuses.
// - The loop never ended when nobody was there to press Enter; it ends with the input.
// - The screen is not cleared when there is none.
// - Where logic was to be added, each event is written down.
// - The version may be given; FOREWARN_METADATA names another address than 169.254.169.254.

using System;
using System.Collections.Generic;
using System.Net;
using Newtonsoft.Json;

public class ScheduledEventsClient
{
    private readonly string scheduledEventsEndpoint;
    private readonly string defaultAddress = "http://169.254.169.254";

    public ScheduledEventsClient(string apiVersion)
    {
        string address = Environment.GetEnvironmentVariable("FOREWARN_METADATA") ?? defaultAddress;
        scheduledEventsEndpoint = string.Format("{0}/metadata/scheduledevents?api-version={1}", address, apiVersion);
    }

    public string GetScheduledEvents()
    {
        using (var webClient = new WebClient())
        {
            webClient.Headers.Add("Metadata", "true");
            return webClient.DownloadString(new Uri(scheduledEventsEndpoint));
        }
    }

    public void ApproveScheduledEvents(string jsonPost)
    {
        using (var webClient = new WebClient())
        {
            webClient.Headers.Add("Metadata", "true");
            webClient.Headers.Add("Content-Type", "application/json");
            webClient.UploadString(scheduledEventsEndpoint, jsonPost);
        }
    }
}

public class ScheduledEventsDocument
{
    public string DocumentIncarnation;
    public List<CloudControlEvent> Events { get; set; }
}

public class CloudControlEvent
{
    public string EventId { get; set; }
    public string EventStatus { get; set; }
    public string EventType { get; set; }
    public string ResourceType { get; set; }
    public List<string> Resources { get; set; }
    public DateTime? NotBefore { get; set; }
}

public class ScheduledEventsApproval
{
    public string DocumentIncarnation;
    public List<StartRequest> StartRequests = new List<StartRequest>();
}

public class StartRequest
{
    [JsonProperty("EventId")]
    private string eventId;

    public StartRequest(string eventId)
    {
        this.eventId = eventId;
    }
}

public class Program
{
    static ScheduledEventsClient client;

    static void Main(string[] args)
    {
        client = new ScheduledEventsClient(args.Length > 0 ? args[0] : "2017-03-01");

        while (true)
        {
            string json = client.GetScheduledEvents();
            var document = JsonConvert.DeserializeObject<ScheduledEventsDocument>(json);

            HandleEvents(document.Events);

            Console.WriteLine("Press Enter to approve these events");
            if (Console.ReadLine() == null)
            {
                return;
            }

            var approval = new ScheduledEventsApproval() { DocumentIncarnation = document.DocumentIncarnation };

            foreach (CloudControlEvent scheduledEvent in document.Events)
            {
                approval.StartRequests.Add(new StartRequest(scheduledEvent.EventId));
            }

            if (approval.StartRequests.Count > 0)
            {
                string approvalJson = JsonConvert.SerializeObject(approval);

                Console.WriteLine($"Approving events with json: {approvalJson}");
                client.ApproveScheduledEvents(approvalJson);
            }

            Console.WriteLine("Complete. Press Enter to repeat");
            if (Console.ReadLine() == null)
            {
                return;
            }
            if (!Console.IsOutputRedirected)
            {
                Console.Clear();
            }
        }
    }

    private static void HandleEvents(List<CloudControlEvent> events)
    {
        // Here the machine hands over its work.
        foreach (CloudControlEvent scheduledEvent in events)
        {
            string resources = string.Join(", ", scheduledEvent.Resources);
            Console.WriteLine(
                $"{scheduledEvent.EventStatus}: {scheduledEvent.EventType} of {resources}, not before {scheduledEvent.NotBefore:R}");
        }
    }
}
